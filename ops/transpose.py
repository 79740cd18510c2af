"""The transpose of a block of LANES x LANES floats in registers, by log2(LANES) exchanges."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from ops.lanes import INT32, INT64, LANES, data, element, load_code, splat_code, store_code
from ops.seam import Array


def _transpose(
    typing: Any, x: Any, at: Any, row: Any, rows: Any, scale: Any, out: Any, to: Any, out_row: Any
) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, at, row, rows, scale, _, to, out_row = args
        source = element(builder, data(context, builder, signature, args, 0), at)
        target = element(builder, data(context, builder, signature, args, 5), to)
        factor = splat_code(builder, scale)
        values = []
        for i in range(LANES):
            inside = builder.icmp_signed("<", INT64(i), rows)
            offset = builder.select(inside, builder.mul(INT64(i), row), INT64(0))
            loaded = load_code(builder, element(builder, source, offset))
            values.append(builder.fmul(loaded, factor))
        for i, value in enumerate(_transposed(builder, values)):
            offset = builder.mul(INT64(i), out_row)
            store_code(builder, value, element(builder, target, offset))
        return context.get_dummy_value()

    i = types.int64
    return types.void(x, i, i, i, types.float32, out, i, i), code


def _transposed(builder: Any, values: list[Any]) -> list[Any]:
    """Write the exchange of rows and lanes: at each distance, 2 x 2 blocks swap a corner."""
    distance = 1
    while distance < LANES:
        upper = [n - distance + LANES if n & distance else n for n in range(LANES)]
        lower = [n + LANES if n & distance else n + distance for n in range(LANES)]
        masks = [ir.Constant(ir.VectorType(INT32, LANES), mask) for mask in (upper, lower)]
        for i in range(LANES):
            if not i & distance:
                a, b = values[i], values[i + distance]
                values[i], values[i + distance] = (
                    builder.shuffle_vector(a, b, mask) for mask in masks
                )
        distance *= 2
    return values


def _transpose_in_python(
    x: Array, at: int, row: int, rows: int, scale: np.float32, out: Array, to: int, out_row: int
) -> None:
    for i in range(LANES):
        start = at + i * row if i < rows else at
        for j in range(LANES):
            out[to + j * out_row + i] = x[start + j] * scale


# out[j, i] = scale * x[i, j] for i, j below LANES, both in flat arrays with their row strides:
# transpose(x, at, row, rows, scale, out, to, out_row). Rows from `rows` on read row 0 instead.
transpose: Any = _transpose_in_python if config.DISABLE_JIT else intrinsic(_transpose)
