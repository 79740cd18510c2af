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
    hide,
    lanes_for,
    load_transposed,
    scores,
)
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
    lanes = lanes_for(rows)
    columns_q, s = scratch(g.size * BLOCK_Q), scratch(BLOCK_KV * BLOCK_Q)
    state = scratch(4 * BLOCK_Q)
    top, total = state[:BLOCK_Q], state[BLOCK_Q : 2 * BLOCK_Q]
    base, fade = state[2 * BLOCK_Q : 3 * BLOCK_Q], state[3 * BLOCK_Q :]
    load_transposed(q, at_q, g.q_row, rows, lanes, g.size, scale, columns_q)
    top[:], total[:] = HIDDEN, ZERO
    p, out = Matrix(s, 0, 1, BLOCK_Q), Matrix(o, at_q, g.q_row, 1)
    end = min(g.keys, first + rows - 1 + g.border)
    for start in range(0, end, BLOCK_KV):
        keys, edge = min(BLOCK_KV, end - start), g.border + first - start
        at = at_kv + start * g.kv_row
        scores(
            Matrix(k, at, g.kv_row, 1), Matrix(columns_q, 0, BLOCK_Q, 1),
            Matrix(s, 0, BLOCK_Q, 1), keys, lanes, g.size, edge,
        )  # fmt: skip
        hide(s, keys, lanes, edge, HIDDEN)
        _soften(s, keys, lanes, top, base, fade, total)
        if start > 0:
            _rescale(out, rows, g.size, fade)
        add_visible(p, Matrix(v, at, g.kv_row, 1), out, rows, g.size, keys, edge, start > 0)
    _finish(out, rows, g.size, top, total, lse, head * g.queries + first)


@jit()
def _soften(
    s: Array, keys: int, lanes: int, top: Array, base: Array, fade: Array, total: Array
) -> None:
    """Turn scores into e^(score - maximum); take the new maxima and sums of every lane."""
    for i in range(lanes):
        base[i] = top[i]
    for j in range(keys):
        s_j = s[j * BLOCK_Q : j * BLOCK_Q + BLOCK_Q]
        for i in range(lanes):
            base[i] = s_j[i] if s_j[i] > base[i] else base[i]
    for i in range(lanes):
        before, now = top[i], base[i]
        base[i] = ZERO if now == HIDDEN else now  # -inf - -inf would be NaN
        fade[i] = exp(before - base[i])
        total[i] *= fade[i]
        top[i] = now
    for j in range(keys):
        s_j = s[j * BLOCK_Q : j * BLOCK_Q + BLOCK_Q]
        for i in range(lanes):
            s_j[i] = exp(s_j[i] - base[i])
            total[i] += s_j[i]


@jit()
def _rescale(o: Matrix, rows: int, size: int, fade: Array) -> None:
    """Multiply each query's output by its factor, where that is not 1."""
    for i in range(rows):
        if fade[i] != ONE:
            for d in range(size):
                o.data[o.at + i * o.row + d] *= fade[i]


@jit()
def _finish(
    o: Matrix, rows: int, size: int, top: Array, total: Array, lse: Array, at_lse: int
) -> None:
    """Divide by the sums and give the lse; a query without keys gets 0 and -inf."""
    for i in range(rows):
        if total[i] == ZERO:
            lse[at_lse + i] = HIDDEN
            for d in range(size):
                o.data[o.at + i * o.row + d] = ZERO
        else:
            lse[at_lse + i] = top[i] + log(total[i])
            share = ONE / total[i]
            for d in range(size):
                o.data[o.at + i * o.row + d] *= share
