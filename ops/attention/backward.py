"""The backward kernel of flash attention: the scores of each block are computed again.

With S, P as in `ops.attention.block`, and delta_i = sum_d dO_id O_id (FlashAttention-2, alg. 2):

    P = e^(S - lse)         dP = V dO^T              dS = scale P (dP - delta)
    dV += P dO              dK += dS Q               dQ += dS^T K

One piece of work is a head of keys with all the query heads that share it. Queries go in blocks in
the outer loop, keys in the inner one, so every sum has one fixed order, whatever the block sizes.
"""

import numpy as np
from numba import prange

from hcom.jit import jit
from ops.attention.block import (
    BLOCK_KV,
    BLOCK_Q,
    HIDDEN,
    Geometry,
    add_seen,
    add_visible,
    load_transposed,
    scores,
    seen_from,
    visible,
)
from ops.lanes import LANES, from_lane, load, store
from ops.seam import Array
from ops.tile import ROWS, Matrix, scratch
from ops.vector_math import exp

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
NOTHING = np.float32(np.inf)  # as lse it makes every probability e^-inf = 0


@jit(parallel=True)
def attend_backward(
    q: Array, k: Array, v: Array, o: Array, lse: Array, do: Array, scale: np.float32, g: Geometry,
    dq: Array, dk: Array, dv: Array,
) -> None:  # fmt: skip
    """Compute dq, dk, dv of flat arrays; heads of keys are independent."""
    for task in prange(g.batch * g.kv_heads):
        batch, kv_head = task // g.kv_heads, task % g.kv_heads
        at_kv = batch * g.kv_batch + kv_head * g.kv_head
        _clear(Matrix(dk, at_kv, g.kv_row, 1), g.keys, g.size)
        _clear(Matrix(dv, at_kv, g.kv_row, 1), g.keys, g.size)
        group = g.heads // g.kv_heads
        for head in range(kv_head * group, (kv_head + 1) * group):
            for first in range(0, g.queries, BLOCK_Q):
                _attend_block_backward(
                    q, k, v, o, lse, do, scale, g, batch, head, first, at_kv, dq, dk, dv
                )


@jit()
def _clear(x: Matrix, rows: int, size: int) -> None:
    for i in range(rows):
        for d in range(size):
            x.data[x.at + i * x.row + d] = ZERO


@jit()
def _attend_block_backward(
    q: Array, k: Array, v: Array, o: Array, lse: Array, do: Array, scale: np.float32, g: Geometry,
    batch: int, head: int, first: int, at_kv: int, dq: Array, dk: Array, dv: Array,
) -> None:  # fmt: skip
    at_q = batch * g.q_batch + head * g.q_head + first * g.q_row
    rows = min(BLOCK_Q, g.queries - first)
    columns_q, columns_do = scratch(g.size * BLOCK_Q), scratch(g.size * BLOCK_Q)
    p, ds = scratch(BLOCK_KV * BLOCK_Q), scratch(BLOCK_KV * BLOCK_Q)
    base, delta = scratch(BLOCK_Q), scratch(BLOCK_Q)
    load_transposed(q, at_q, g.q_row, rows, g.size, scale, columns_q)
    load_transposed(do, at_q, g.q_row, rows, g.size, ONE, columns_do)
    base[:], delta[:] = NOTHING, ZERO
    at_lse = (batch * g.heads + head) * g.queries + first
    for i in range(rows):
        base[i] = NOTHING if lse[at_lse + i] == HIDDEN else lse[at_lse + i]
        delta[i] = _dot(do, o, at_q + i * g.q_row, g.size)
    q_rows, do_rows = Matrix(q, at_q, g.q_row, 1), Matrix(do, at_q, g.q_row, 1)
    dq_rows = Matrix(dq, at_q, g.q_row, 1)
    q_columns, do_columns = Matrix(columns_q, 0, BLOCK_Q, 1), Matrix(columns_do, 0, BLOCK_Q, 1)
    p_keys, ds_keys = Matrix(p, 0, BLOCK_Q, 1), Matrix(ds, 0, BLOCK_Q, 1)
    ds_queries = Matrix(ds, 0, 1, BLOCK_Q)
    _clear(dq_rows, rows, g.size)
    end = min(g.keys, first + rows - 1 + g.border)
    for start in range(0, end, BLOCK_KV):
        keys, edge = min(BLOCK_KV, end - start), g.border + first - start
        at = at_kv + start * g.kv_row
        k_rows, v_rows = Matrix(k, at, g.kv_row, 1), Matrix(v, at, g.kv_row, 1)
        scores(k_rows, q_columns, p_keys, keys, rows, g.size, edge)
        scores(v_rows, do_columns, ds_keys, keys, rows, g.size, edge)
        _differentiate(p, ds, keys, rows, edge, base, delta, scale)
        add_seen(p_keys, do_rows, Matrix(dv, at, g.kv_row, 1), keys, g.size, rows, edge)
        add_seen(ds_keys, q_rows, Matrix(dk, at, g.kv_row, 1), keys, g.size, rows, edge)
        add_visible(ds_queries, k_rows, dq_rows, rows, g.size, keys, edge, True)


@jit(fast=True)
def _dot(x: Array, y: Array, at: int, size: int) -> np.float32:
    total = ZERO
    for d in range(size):
        total += x[at + d] * y[at + d]
    return total


@jit()
def _differentiate(
    p: Array, ds: Array, keys: int, rows: int, edge: int, base: Array, delta: Array,
    scale: np.float32,
) -> None:  # fmt: skip
    """Turn scores into probabilities, and dP into dS; hidden elements become 0."""
    for i in range(0, rows, LANES):
        lse, mean = load(base, i), load(delta, i)
        seen_by_all = visible(i, edge, keys)
        seen_by_some = visible(i + LANES - 1, edge, keys)
        for j in range(seen_by_some):
            at = j * BLOCK_Q + i
            probability = exp(load(p, at) - lse)
            slope = scale * (probability * (load(ds, at) - mean))
            if j >= seen_by_all:
                first = seen_from(j, edge) - i
                probability = from_lane(first, probability, ZERO)
                slope = from_lane(first, slope, ZERO)
            store(p, at, probability)
            store(ds, at, slope)
        # A tile of ROWS keys that begins above this border reads below it.
        for j in range(seen_by_some, min(keys, seen_by_some + ROWS)):
            store(p, j * BLOCK_Q + i, ZERO)
            store(ds, j * BLOCK_Q + i, ZERO)
