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
from ops.lanes import LANES
from ops.seam import Array
from ops.tile import COLUMNS, ROWS, Matrix, multiply, part, scratch
from ops.transpose import transpose

# 128 x 128 x 4 B = 64 KiB of scores, and as much of keys, values and queries at head size 128, stay
# in a second-level cache. Measured against 32 to 256 each: 3 to 10 % faster, at any length.
BLOCK_Q = 128
# Decides when a row is rescaled, and so its bits: not to be tuned while a run goes on.
BLOCK_KV = 128

HIDDEN = np.float32(-np.inf)
ZERO = np.float32(0.0)


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
def whole(count: int, unit: int) -> int:
    """Round up to a multiple."""
    return (count + unit - 1) // unit * unit


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
    x: Array, at: int, row: int, rows: int, size: int, scale: np.float32, out: Array
) -> None:
    """Set out[d, i] = scale * x[i, d], BLOCK_Q lanes a row; lanes past `rows` repeat a query."""
    for i in range(0, rows, LANES):
        for d in range(0, size, LANES):
            to = d * BLOCK_Q + i
            transpose(x, at + i * row + d, row, rows - i, scale, out, to, BLOCK_Q)


@jit()
def scores(
    key_rows: Matrix, query_columns: Matrix, s: Matrix, keys: int, rows: int, size: int, edge: int
) -> None:
    """S = K Q^T where it may be kept; the rest of S, all of it hidden, stays as it was."""
    lanes = whole(rows, LANES)
    if edge >= keys:
        multiply(key_rows, query_columns, s, keys, lanes, size, False)
        return
    for j in range(0, keys, ROWS):
        start = seen_from(j, edge) // COLUMNS * COLUMNS
        if start < lanes:
            a = part(key_rows, j, 0)
            b, c = part(query_columns, 0, start), part(s, j, start)
            multiply(a, b, c, min(ROWS, keys - j), lanes - start, size, False)


@jit()
def all_finite(b: Matrix, rows: int, columns: int) -> bool:
    """Whether b holds neither NaN nor infinity: what 0 times its rows would add up to is 0."""
    sums, zero = scratch(columns), np.zeros(1, np.float32)
    multiply(Matrix(zero, 0, 0, 0), b, Matrix(sums, 0, columns, 1), 1, columns, rows, False)
    for i in range(columns):
        if sums[i] != ZERO:
            return False
    return True


@jit()
def add_visible(
    a: Matrix, b: Matrix, c: Matrix, rows: int, columns: int, keys: int, edge: int, accumulate: bool
) -> None:
    """For each query i: C[i] (+)= sum of A[i, j] B[j] over the keys j it sees."""
    if edge >= keys:
        multiply(a, b, c, rows, columns, keys, accumulate)
        return
    group = ROWS if all_finite(b, keys, columns) else 1
    for i in range(0, rows, group):
        count = min(group, rows - i)
        depth = visible(i + count - 1, edge, keys)
        multiply(part(a, i, 0), b, part(c, i, 0), count, columns, depth, accumulate)


@jit()
def add_seen(
    a: Matrix, b: Matrix, c: Matrix, keys: int, columns: int, rows: int, edge: int
) -> None:
    """For each key j: C[j] += sum of A[j, i] B[i] over the queries i that see it."""
    if edge >= keys:
        multiply(a, b, c, keys, columns, rows, True)
        return
    group = ROWS if all_finite(b, rows, columns) else 1
    for j in range(0, keys, group):
        start = seen_from(j, edge)
        if start < rows:
            a_j, b_j, c_j = part(a, j, start), part(b, start, 0), part(c, j, 0)
            multiply(a_j, b_j, c_j, min(group, keys - j), columns, rows - start, True)
