"""Linear layers: y = x w + b, and the gradients of input, weight and bias.

Shapes: T tokens, D input features, F output features.

    y_TF = x_TD w_DF + b_F      dx_TD = dy_TF w_DF^T      dw_DF = x_TD^T dy_TF      db_F = sum_T dy

One kernel computes all three products, in blocks spread over threads. The sum of an element goes
along the whole depth in order, so its bits depend on nothing but its operands: not on the number
of threads, and not on which other rows are there.
"""

import numpy as np
from numba import prange

from hcom.jit import jit
from ops.lanes import LANES, load, store
from ops.seam import Array, Call
from ops.tile import COLUMNS, Matrix, multiply, part, scratch
from ops.transpose import transpose

# A packed panel, 256 x 32 x 4 B = 32 KiB, stays in the first-level cache while rows pass over it.
DEPTH_BLOCK = 256
# 256 x 256 x 4 B = 256 KiB of A stay in the second-level cache while four panels pass. Packing a
# panel costs about 3 % of multiplying it; larger blocks would leave too few for the threads.
ROW_BLOCK = 256
COLUMN_BLOCK = 4 * COLUMNS
SUM_BLOCK = 64  # rows of a bias gradient that are summed on their own

ONE = np.float32(1.0)
_NO_BIAS = np.empty(0, np.float32)


def linear(x_TD: Array, w_DF: Array, bias_F: Array | None = None) -> Array:
    """Multiply tokens by a weight and add a bias.

    Parameters
    ----------
    x_TD : (T, D) float32.
    w_DF : (D, F) float32.
    bias_F : (F,) float32, or None for none.

    Returns
    -------
    (T, F) float32.

    Raises
    ------
    TypeError, ValueError : an argument has the wrong type, shape or layout.
    """
    call = Call("linear")
    tokens, depth = call.check("x_TD", x_TD, (None, None))
    _, width = call.check("w_DF", w_DF, (depth, None))
    if bias_F is not None:
        call.check("bias_F", bias_F, (width,))
    y_TF = call.empty((tokens, width))
    bias = _NO_BIAS if bias_F is None else bias_F
    _multiply(x_TD, w_DF, False, y_TF, bias, False)
    _done(call, y_TF, tokens, depth, width)
    return y_TF


def linear_backward_input(dy_TF: Array, w_DF: Array) -> Array:
    """Compute dx = dy w^T.

    Parameters
    ----------
    dy_TF : (T, F) float32.
    w_DF : (D, F) float32.

    Returns
    -------
    (T, D) float32.
    """
    call = Call("linear_backward_input")
    tokens, width = call.check("dy_TF", dy_TF, (None, None))
    depth, _ = call.check("w_DF", w_DF, (None, width))
    dx_TD = call.empty((tokens, depth))
    _multiply(dy_TF, w_DF, True, dx_TD, _NO_BIAS, False)
    _done(call, dx_TD, tokens, depth, width)
    return dx_TD


def linear_backward_weight(x_TD: Array, dy_TF: Array, *, out: Array | None = None) -> Array:
    """Compute dw = x^T dy, added into `out` when given.

    Parameters
    ----------
    x_TD : (T, D) float32, the input of the forward pass.
    dy_TF : (T, F) float32.
    out : (D, F) float32 to add into; by default a new array.

    Returns
    -------
    (D, F) float32: `out`, or the new array.
    """
    call = Call("linear_backward_weight")
    tokens, depth = call.check("x_TD", x_TD, (None, None))
    _, width = call.check("dy_TF", dy_TF, (tokens, None))
    if out is None:
        dw_DF = call.empty((depth, width))
    else:
        dw_DF = call.accumulator(out, (depth, width))
    x_DT = call.empty((depth, _odd_lines(tokens)))
    _transpose(x_TD, x_DT)
    _multiply(x_DT, dy_TF, False, dw_DF, _NO_BIAS, out is not None)
    _done(call, dw_DF, tokens, depth, width)
    return dw_DF


def bias_backward(dy_TF: Array, *, out: Array | None = None) -> Array:
    """Sum dy over the tokens, added into `out` when given.

    Parameters
    ----------
    dy_TF : (T, F) float32.
    out : (F,) float32 to add into; by default a new array.

    Returns
    -------
    (F,) float32: `out`, or the new array.
    """
    call = Call("bias_backward")
    _, width = call.check("dy_TF", dy_TF, (None, None))
    db_F = call.accumulator(out, (width,))
    _sum_rows(dy_TF, db_F)
    call.done(flops=dy_TF.size, nbytes=4 * dy_TF.size)
    return db_F


def _odd_lines(count: int) -> int:
    """Round up to an odd number of cache lines: rows a power of two apart share cache sets."""
    return (count // LANES + 1 | 1) * LANES


def _done(call: Call, output: Array, tokens: int, depth: int, width: int) -> None:
    if output.size:
        nbytes = 4 * (tokens * depth + depth * width + tokens * width)
        call.done(2 * tokens * depth * width, nbytes)


@jit(parallel=True)
def _multiply(
    a: Array, b: Array, b_transposed: bool, c: Array, bias: Array, accumulate: bool
) -> None:
    """C (+)= A B + bias, or A B^T + bias; rows of A may be longer than the depth."""
    rows, columns = c.shape
    depth = b.shape[1] if b_transposed else b.shape[0]
    b_row, b_step = (1, b.shape[1]) if b_transposed else (b.shape[1], 1)
    a_all = Matrix(a.reshape(a.size), 0, a.shape[1], 1)
    c_all = Matrix(c.reshape(c.size), 0, columns, 1)
    b_all = Matrix(b.reshape(b.size), 0, b_row, b_step)
    across = (columns + COLUMN_BLOCK - 1) // COLUMN_BLOCK
    down = (rows + ROW_BLOCK - 1) // ROW_BLOCK
    for task in prange(across * down):
        row, column = task // across * ROW_BLOCK, task % across * COLUMN_BLOCK
        count, width = min(ROW_BLOCK, rows - row), min(COLUMN_BLOCK, columns - column)
        a_rows, b_columns = part(a_all, row, 0), part(b_all, 0, column)
        bias_part = bias[column : column + width]
        c_part = part(c_all, row, column)
        _multiply_block(a_rows, b_columns, c_part, bias_part, count, width, depth, accumulate)


@jit()
def _multiply_block(
    a: Matrix, b: Matrix, c: Matrix, bias: Array, rows: int, width: int, depth: int,
    accumulate: bool,
) -> None:  # fmt: skip
    """Multiply one block of rows and columns."""
    panel = scratch(DEPTH_BLOCK * COLUMNS)
    room = (width + COLUMNS - 1) // COLUMNS * COLUMNS
    ragged = width < room  # a tile stores whole vectors: give it room for them
    target = Matrix(scratch(rows * room), 0, room, 1) if ragged else c
    if ragged and accumulate:
        _copy(c, target, rows, width)
    if bias.size:
        _copy(Matrix(bias, 0, 0, 1), target, rows, width)
    goes_on = accumulate or bias.size > 0
    for k in range(0, max(depth, 1), DEPTH_BLOCK):
        steps = min(DEPTH_BLOCK, depth - k)
        for j in range(0, width, COLUMNS):
            _pack(part(b, k, j), steps, min(COLUMNS, width - j), panel)
            packed = Matrix(panel, 0, COLUMNS, 1)
            multiply(part(a, 0, k), packed, part(target, 0, j), rows, COLUMNS, steps, goes_on)
        goes_on = True
    if ragged:
        _copy(target, c, rows, width)


@jit()
def _pack(b: Matrix, steps: int, width: int, panel: Array) -> None:
    """Copy steps x width of B into rows of COLUMNS floats; what lies past `width` has no use."""
    if b.step == 1 and width == COLUMNS:
        for k in range(steps):
            for j in range(0, COLUMNS, LANES):
                store(panel, k * COLUMNS + j, load(b.data, b.at + k * b.row + j))
        return
    if b.step == 1:
        _copy(b, Matrix(panel, 0, COLUMNS, 1), steps, width)
        return
    whole = steps - steps % LANES
    for j in range(0, width, LANES):
        for k in range(0, whole, LANES):
            at = b.at + k + j * b.step
            transpose(b.data, at, b.step, width - j, ONE, panel, k * COLUMNS + j, COLUMNS)
    _copy(part(b, whole, 0), Matrix(panel, whole * COLUMNS, COLUMNS, 1), steps - whole, width)


@jit()
def _transpose(x: Array, out: Array) -> None:
    """Transpose x into rows that may be longer."""
    (rows, columns), row = x.shape, out.shape[1]
    flat, target = x.reshape(x.size), out.reshape(out.size)
    whole_rows, whole_columns = rows - rows % LANES, columns - columns % LANES
    for i in range(0, whole_rows, LANES):
        for j in range(0, whole_columns, LANES):
            at, to = i * columns + j, j * row + i
            transpose(flat, at, columns, LANES, ONE, target, to, row)
    for i in range(rows):
        for j in range(whole_columns if i < whole_rows else 0, columns):
            target[j * row + i] = flat[i * columns + j]


@jit()
def _copy(source: Matrix, target: Matrix, rows: int, width: int) -> None:
    """Copy rows x width elements; rows of the target are contiguous."""
    for i in range(rows):
        at, to = source.at + i * source.row, target.at + i * target.row
        for j in range(width):
            target.data[to + j] = source.data[at + j * source.step]


@jit()
def _sum_rows(x: Array, out: Array) -> None:
    """Add the rows to `out`: some in turn, then their sum, so that errors stay small."""
    block = np.empty(x.shape[1], np.float32)
    for first in range(0, x.shape[0], SUM_BLOCK):
        block[:] = np.float32(0)
        for row in range(first, min(first + SUM_BLOCK, x.shape[0])):
            for i in range(x.shape[1]):
                block[i] += x[row, i]
        for i in range(x.shape[1]):
            out[i] += block[i]
