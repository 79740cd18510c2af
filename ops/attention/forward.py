"""The forward kernel of flash attention: a block of queries at a time, over its keys in blocks.

FlashAttention-2, algorithm 1, with S, P as in `ops.attention.block`:

    S = scale K Q^T                m' = max(m, max S)        P = e^(S - m')
    l = e^(m - m') l + sum P       O = e^(m - m') O + P^T V  m = m'
    at the end: O = O / l          lse = m + ln l

A query that sees no key has l = 0: its output is 0 and its lse -inf. A row's bits depend on
BLOCK_KV alone, which decides when l and O are rescaled.
"""

import numpy as np
from numba import prange

from hcom.jit import jit
from ops.attention.block import (
    BLOCK_KV,
    BLOCK_Q,
    HIDDEN,
    Geometry,
    add_visible,
    load_transposed,
    scores,
    seen_from,
    visible,
)
from ops.lanes import LANES, below, from_lane, load, store
from ops.seam import Array
from ops.tile import Matrix, scratch
from ops.vector_math import exp, log

ZERO = np.float32(0.0)
ONE = np.float32(1.0)


@jit(parallel=True)
def attend(
    q: Array, k: Array, v: Array, scale: np.float32, g: Geometry, o: Array, lse: Array
) -> None:
    """Compute o and lse (B, N, Sq) of flat arrays; blocks of queries are independent."""
    blocks = (g.queries + BLOCK_Q - 1) // BLOCK_Q
    heads = g.batch * g.heads
    for task in prange(heads * blocks):
        # The last block of a causal head has most keys: the longest work first.
        block, head = blocks - 1 - task // heads, task % heads
        _attend_block(q, k, v, scale, g, head, block * BLOCK_Q, o, lse)


@jit()
def _attend_block(
    q: Array, k: Array, v: Array, scale: np.float32, g: Geometry, head: int, first: int,
    o: Array, lse: Array,
) -> None:  # fmt: skip
    batch, n = head // g.heads, head % g.heads
    at_q = batch * g.q_batch + n * g.q_head + first * g.q_row
    at_kv = batch * g.kv_batch + n // (g.heads // g.kv_heads) * g.kv_head
    rows = min(BLOCK_Q, g.queries - first)
    columns, s = scratch(g.size * BLOCK_Q), scratch(BLOCK_KV * BLOCK_Q)
    top, total, fade = scratch(BLOCK_Q), scratch(BLOCK_Q), scratch(BLOCK_Q)
    load_transposed(q, at_q, g.q_row, rows, g.size, scale, columns)
    top[:], total[:] = HIDDEN, ZERO
    q_columns, s_keys = Matrix(columns, 0, BLOCK_Q, 1), Matrix(s, 0, BLOCK_Q, 1)
    p_queries, out = Matrix(s, 0, 1, BLOCK_Q), Matrix(o, at_q, g.q_row, 1)
    end = min(g.keys, first + rows - 1 + g.border)
    for start in range(0, end, BLOCK_KV):
        keys, edge = min(BLOCK_KV, end - start), g.border + first - start
        k_rows = Matrix(k, at_kv + start * g.kv_row, g.kv_row, 1)
        v_rows = Matrix(v, at_kv + start * g.kv_row, g.kv_row, 1)
        scores(k_rows, q_columns, s_keys, keys, rows, g.size, edge)
        _soften(s, keys, rows, edge, top, total, fade)
        if start > 0:
            _rescale(out, rows, g.size, fade)
        add_visible(p_queries, v_rows, out, rows, g.size, keys, edge, start > 0)
    _finish(out, rows, g.size, top, total, fade, lse, head * g.queries + first)


@jit()
def _soften(
    s: Array, keys: int, rows: int, edge: int, top: Array, total: Array, fade: Array
) -> None:
    """Turn scores into e^(score - maximum); take the new maxima and sums of every query."""
    for i in range(0, rows, LANES):
        before = now = load(top, i)
        seen_by_all = visible(i, edge, keys)
        seen_by_some = visible(i + LANES - 1, edge, keys)
        for j in range(seen_by_all):
            now = _larger(now, load(s, j * BLOCK_Q + i))
        for j in range(seen_by_all, seen_by_some):
            score = from_lane(seen_from(j, edge) - i, load(s, j * BLOCK_Q + i), HIDDEN)
            store(s, j * BLOCK_Q + i, score)
            now = _larger(now, score)
        base = below(HIDDEN, now, now, ZERO)  # -inf - -inf would be NaN
        factor = exp(before - base)
        sums = load(total, i) * factor
        for j in range(seen_by_some):
            p = exp(load(s, j * BLOCK_Q + i) - base)
            store(s, j * BLOCK_Q + i, p)
            sums = sums + p
        store(top, i, now)
        store(fade, i, factor)
        store(total, i, sums)


@jit(inline=True)
def _larger(x: Array, y: Array) -> Array:
    """Return the larger; x where y is NaN, which its exponential shows all the same."""
    result: Array = below(x, y, y, x)
    return result


@jit()
def _rescale(o: Matrix, rows: int, size: int, factors: Array) -> None:
    """Multiply each query's output by its factor, where that is not 1."""
    for i in range(rows):
        factor = factors[i]
        if factor != ONE:
            for d in range(0, size, LANES):
                at = o.at + i * o.row + d
                store(o.data, at, load(o.data, at) * factor)


@jit()
def _finish(
    o: Matrix, rows: int, size: int, top: Array, total: Array, share: Array, lse: Array, at: int
) -> None:
    """Divide by the sums and give the lse; a query that sees no key gets 0 and -inf."""
    for i in range(rows):
        empty = total[i] == ZERO  # then top is -inf
        share[i] = ONE / (ONE if empty else total[i])
        lse[at + i] = top[i] + log(ONE if empty else total[i])
        if empty:
            for d in range(0, size, LANES):
                store(o.data, o.at + i * o.row + d, ZERO)
    _rescale(o, rows, size, share)
