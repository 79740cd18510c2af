"""One block of scores: BLOCK_KV keys by BLOCK_Q queries, and which of them are kept.

Scores are held transposed, a row per key and a lane per query. Then maxima and sums over the keys
are vertical vector operations, keys and values are read as they lie, and only the queries of a
block are rearranged, once.

A query sees the keys before a border that moves along with it. Within a block that is one number:
query i sees key j if j < i + edge, both counted from the block's corner. All blocks with
edge >= keys are kept whole; a block on the diagonal is worked on in groups of ROWS, so little that
is masked is computed at all. What a mask hides must not leak, not even as 0 * inf: where the
hidden part of an operand could be multiplied and is not finite, rows are taken one by one.
"""

from typing import NamedTuple

import numpy as np

from hcom.jit import jit
from ops.seam import Array
from ops.tile import COLUMNS, LANES, ROWS, Matrix, multiply

# 64 x 64 x 4 B = 16 KiB of scores; with the keys, values and queries of a block (16 KiB each at
# head size 64) they stay in a second-level cache, the scores themselves in the first.
BLOCK_Q = 64
# Decides when a row is rescaled, and so its bits: not to be tuned while a run goes on.
BLOCK_KV = 64

HIDDEN = np.float32(-np.inf)
ZERO = np.float32(0.0)
EXPONENT = np.int32(0x7F800000)


class Geometry(NamedTuple):
    """Sizes of an attention call, and strides in floats of its flat arrays."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    q_batch: int
    q_head: int
    q_row: int
    kv_batch: int
    kv_head: int
    kv_row: int
    border: int  # query i sees the keys j < i + border


@jit(inline=True)
def visible(i: int, edge: int, keys: int) -> int:
    """How many of a block's keys query i sees."""
    return min(max(i + edge, 0), keys)


@jit(inline=True)
def seen_from(j: int, edge: int) -> int:
    """First query of a block that sees key j; it may lie past the block."""
    return max(0, j + 1 - edge)


@jit()
def load_transposed(
    x: Array, at: int, row: int, rows: int, lanes: int, size: int, scale: np.float32, out: Array
) -> None:
    """out[d, i] = scale * x[i, d] with BLOCK_Q lanes a row; lanes past `rows` are zeros."""
    for d in range(size):
        for i in range(rows):
            out[d * BLOCK_Q + i] = x[at + i * row + d] * scale
        for i in range(rows, lanes):
            out[d * BLOCK_Q + i] = ZERO


@jit()
def scores(rows_k: Matrix, columns_q: Matrix, s: Matrix, keys: int, lanes: int, size: int,
           edge: int) -> None:  # fmt: skip
    """S = K Q^T where it may be kept; what else lies in S is hidden by `hide`."""
    if edge >= keys:
        multiply(rows_k, columns_q, s, keys, lanes, size, False)
        return
    for j in range(0, keys, ROWS):
        start = seen_from(j, edge) // COLUMNS * COLUMNS
        if start < lanes:
            a = Matrix(rows_k.data, rows_k.at + j * rows_k.row, rows_k.row, rows_k.step)
            b = Matrix(columns_q.data, columns_q.at + start, columns_q.row, columns_q.step)
            c = Matrix(s.data, s.at + j * s.row + start, s.row, s.step)
            multiply(a, b, c, min(ROWS, keys - j), lanes - start, size, False)


@jit()
def hide(s: Array, keys: int, lanes: int, edge: int, value: np.float32) -> None:
    """Set every hidden element of a block."""
    for j in range(max(0, edge), keys):
        for i in range(min(lanes, seen_from(j, edge))):
            s[j * BLOCK_Q + i] = value


@jit()
def all_finite(x: Matrix, rows: int, columns: int) -> bool:
    """Whether a block of a row-major matrix holds neither NaN nor infinity."""
    for i in range(rows):
        largest = np.int32(0)
        for j in range(columns):
            bits = np.float32(x.data[x.at + i * x.row + j]).view(np.int32) & EXPONENT
            largest = max(largest, bits)
        if largest == EXPONENT:
            return False
    return True


@jit()
def add_visible(a: Matrix, b: Matrix, c: Matrix, rows: int, columns: int, keys: int, edge: int,
                accumulate: bool) -> None:  # fmt: skip
    """For each query i: C[i] (+)= sum of A[i, j] B[j] over the keys j it sees."""
    if edge >= keys:
        multiply(a, b, c, rows, columns, keys, accumulate)
        return
    group = ROWS if all_finite(b, keys, columns) else 1
    for i in range(0, rows, group):
        count = min(group, rows - i)
        a_i = Matrix(a.data, a.at + i * a.row, a.row, a.step)
        c_i = Matrix(c.data, c.at + i * c.row, c.row, c.step)
        multiply(a_i, b, c_i, count, columns, visible(i + count - 1, edge, keys), accumulate)


@jit()
def add_seen(a: Matrix, b: Matrix, c: Matrix, keys: int, columns: int, rows: int,
             edge: int) -> None:  # fmt: skip
    """For each key j: C[j] += sum of A[j, i] B[i] over the queries i that see it."""
    if edge >= keys:
        multiply(a, b, c, keys, columns, rows, True)
        return
    group = ROWS if all_finite(b, rows, columns) else 1
    for j in range(0, keys, group):
        start = seen_from(j, edge)
        if start < rows:
            a_j = Matrix(a.data, a.at + j * a.row + start * a.step, a.row, a.step)
            b_j = Matrix(b.data, b.at + start * b.row, b.row, b.step)
            c_j = Matrix(c.data, c.at + j * c.row, c.row, c.step)
            multiply(a_j, b_j, c_j, min(group, keys - j), columns, rows - start, True)


@jit(inline=True)
def lanes_for(rows: int) -> int:
    """How many lanes hold `rows` queries: whole vectors."""
    return (rows + LANES - 1) // LANES * LANES
