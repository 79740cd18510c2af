"""Linear layers: y = x w + b, and the gradients of input, weight and bias.

Shapes: T tokens, D input features, F output features.

    y_TF = x_TD w_DF + b_F      dx_TD = dy_TF w_DF^T      dw_DF = x_TD^T dy_TF      db_F = sum_T dy

All three products run in one kernel that reads its operands through strides, so a transpose is
never stored. Work is cut into panels of columns and blocks of rows, spread over threads; an
element's sum goes along the whole depth in order, so its bits depend on nothing but the operands.
"""

import numpy as np
from numba import prange

from hcom.jit import jit
from ops.seam import Array, Call
from ops.tile import COLUMNS, Matrix, multiply, scratch

# One packed panel, 256 x 32 x 4 B = 32 KiB, stays in the first-level cache while all rows of a
# block pass over it.
DEPTH_BLOCK = 256
# Rows that share a packed panel: packing costs about a step of COLUMNS / ROWS rows, so under 1 %;
# more rows would leave too few blocks for the threads.
ROW_BLOCK = 512

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
    _multiply(x_TD, False, w_DF, False, y_TF, bias, False)
    _done(call, tokens, depth, width)
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
    _multiply(dy_TF, False, w_DF, True, dx_TD, _NO_BIAS, False)
    _done(call, tokens, depth, width)
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
    _multiply(x_TD, True, dy_TF, False, dw_DF, _NO_BIAS, out is not None)
    _done(call, tokens, depth, width)
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


def _done(call: Call, tokens: int, depth: int, width: int) -> None:
    flops = 2 * tokens * depth * width
    nbytes = 4 * (tokens * depth + depth * width + tokens * width) if flops else 0
    call.done(flops, nbytes)


@jit(parallel=True)
def _multiply(
    a: Array,
    a_transposed: bool,
    b: Array,
    b_transposed: bool,
    c: Array,
    bias: Array,
    accumulate: bool,
) -> None:
    """C (+)= op(A) op(B) + bias, op a transpose or nothing."""
    rows, columns = c.shape
    depth = a.shape[0] if a_transposed else a.shape[1]
    a_row, a_step = (1, a.shape[1]) if a_transposed else (a.shape[1], 1)
    b_row, b_step = (1, b.shape[1]) if b_transposed else (b.shape[1], 1)
    a_all = Matrix(a.reshape(a.size), 0, a_row, a_step)
    b_all = Matrix(b.reshape(b.size), 0, b_row, b_step)
    c_all = Matrix(c.reshape(c.size), 0, columns, 1)
    panels = (columns + COLUMNS - 1) // COLUMNS
    blocks = (rows + ROW_BLOCK - 1) // ROW_BLOCK
    for task in prange(panels * blocks):
        row, column = task // panels * ROW_BLOCK, task % panels * COLUMNS
        count, width = min(ROW_BLOCK, rows - row), min(COLUMNS, columns - column)
        _multiply_panel(a_all, b_all, c_all, bias, row, column, count, width, depth, accumulate)


@jit()
def _multiply_panel(
    a: Matrix,
    b: Matrix,
    c: Matrix,
    bias: Array,
    row: int,
    column: int,
    rows: int,
    width: int,
    depth: int,
    accumulate: bool,
) -> None:
    """Multiply `rows` rows of A with one panel of B, at most COLUMNS wide."""
    panel = scratch(DEPTH_BLOCK * COLUMNS)
    inside = c.at + row * c.row + column
    target = Matrix(c.data, inside, c.row, 1)
    if width < COLUMNS:  # a tile stores whole vectors: give it room
        target = Matrix(scratch(rows * COLUMNS), 0, COLUMNS, 1)
        if accumulate:
            _copy(c.data, inside, c.row, target.data, 0, COLUMNS, rows, width)
    if bias.size:
        for i in range(rows):
            for j in range(width):
                target.data[target.at + i * target.row + j] = bias[column + j]
    goes_on = accumulate or bias.size > 0
    for k in range(0, max(depth, 1), DEPTH_BLOCK):
        steps = min(DEPTH_BLOCK, depth - k)
        _pack(b, k, column, steps, width, panel)
        a_block = Matrix(a.data, a.at + row * a.row + k * a.step, a.row, a.step)
        multiply(a_block, Matrix(panel, 0, COLUMNS, 1), target, rows, COLUMNS, steps, goes_on)
        goes_on = True
    if width < COLUMNS:
        _copy(target.data, 0, COLUMNS, c.data, inside, c.row, rows, width)


@jit()
def _pack(b: Matrix, k: int, column: int, steps: int, width: int, panel: Array) -> None:
    """Copy steps x width of B into a panel of full rows; columns past `width` are zeros."""
    at = b.at + k * b.row + column * b.step
    if width < COLUMNS:
        panel[:] = np.float32(0)
    if b.step == 1:
        _copy(b.data, at, b.row, panel, 0, COLUMNS, steps, width)
    else:
        for j in range(width):
            for i in range(steps):
                panel[i * COLUMNS + j] = b.data[at + i * b.row + j * b.step]


@jit()
def _copy(
    source: Array, at: int, row: int, target: Array, to: int, to_row: int, rows: int, width: int
) -> None:
    """Copy rows x width floats from one flat array to another."""
    for i in range(rows):
        for j in range(width):
            target[to + i * to_row + j] = source[at + i * row + j]


@jit()
def _sum_rows(x: Array, out: Array) -> None:
    """Add the rows to `out`: 64 in turn, then their sum, so that errors stay small."""
    block = np.empty(x.shape[1], np.float32)
    for first in range(0, x.shape[0], 64):
        block[:] = np.float32(0)
        for row in range(first, min(first + 64, x.shape[0])):
            for i in range(x.shape[1]):
                block[i] += x[row, i]
        for i in range(x.shape[1]):
            out[i] += block[i]
