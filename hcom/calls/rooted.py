"""Checks of the collectives that have a root."""

import numpy as np

from hcom.arguments import Array, check_array, check_rank
from hcom.calls.call import (
    Algorithm,
    Call,
    Place,
    divisor_of,
    joined_shape,
    make_call,
    reduced_kind,
)
from hcom.data_type import data_type_of
from hcom.operation import Request


def reduce(
    place: Place,
    x: Array,
    root: int = 0,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a reduce."""
    kind = reduced_kind(x, op)
    root = check_rank(root, "root", place.rank_size)
    request = Request("reduce", kind, op, root, x.nbytes, x.nbytes, algorithm)
    shape = x.shape if place.rank == root else None
    return make_call(request, x, shape, out, divisor_of(op, place))


def broadcast(
    place: Place,
    x: Array,
    root: int = 0,
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a broadcast."""
    kind = data_type_of(check_array(x, "x"))
    root = check_rank(root, "root", place.rank_size)
    request = Request("broadcast", kind, "", root, x.nbytes, x.nbytes, algorithm)
    return make_call(request, x, x.shape, out)


def gather(
    place: Place,
    x: Array,
    root: int = 0,
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a gather."""
    kind = data_type_of(check_array(x, "x"))
    root = check_rank(root, "root", place.rank_size)
    shape = joined_shape(x, place.rank_size, "gather")
    total = x.nbytes * place.rank_size
    request = Request("gather", kind, "", root, total, total, algorithm)
    return make_call(request, x, shape if place.rank == root else None, out)


def scatter(
    place: Place,
    x: Array | None,
    root: int,
    block: tuple[tuple[int, ...], np.dtype],
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a scatter whose block's shape and type have come from the root."""
    shape, dtype = block
    kind = data_type_of(np.empty(0, dtype))
    total = int(np.prod(shape, dtype=np.int64)) * kind.nbytes * place.rank_size
    return make_call(Request("scatter", kind, "", root, total, total, algorithm), x, shape, out)
