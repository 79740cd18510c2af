"""What numpy alone says of a collective's result: it knows no schedule and no order."""

import ml_dtypes
import numpy as np


def result_of(collective, inputs, op, root, rank):
    """One rank's result from all ranks' inputs, and how far from it a right one may be.

    The result is None where the rank gets none. The bound is 0 where nothing rounds, and else eps
    (twice what one operation may add) for each operation there is, in any order.
    """
    size = len(inputs)
    if collective in ("reduce", "gather") and rank != root:
        return None, 0
    if collective in ("reduce_scatter", "scatter", "all_to_all"):
        inputs = [None if x is None else np.split(x, size)[rank] for x in inputs]
    if collective in ("broadcast", "scatter"):
        return inputs[root], 0
    if collective in ("all_gather", "gather", "all_to_all"):
        return np.concatenate(inputs), 0
    return reduced(np.stack(inputs), op)


def reduced(x, op):
    """Reduce over axis 0."""
    size, kind = len(x), x.dtype
    if op in ("max", "min"):
        return getattr(x, op)(axis=0), 0
    if kind.kind == "b":
        return (x.any(axis=0) if op == "sum" else x.all(axis=0)), 0
    if kind.kind in "iu":  # wraps as the type does
        return (x.sum(axis=0, dtype=kind) if op == "sum" else x.prod(axis=0, dtype=kind)), 0
    exact, eps = x.astype(np.longdouble), float(ml_dtypes.finfo(kind).eps)
    if op == "prod":
        product = exact.prod(axis=0)
        return product, (size - 1) * eps * abs(product)
    total, most = exact.sum(axis=0), abs(exact).sum(axis=0)
    if op == "avg":
        return total / size, size * eps * most / size
    return total, (size - 1) * eps * most
