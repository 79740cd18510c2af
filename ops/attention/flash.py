"""Flash attention, forward and backward, exact and in float32: what users call.

Shapes: B batch, N heads of queries, M heads of keys (M divides N; query head n reads head
n // (N / M)), S positions of queries, K of keys, D head size.

    O = softmax(scale Q K^T + mask) V        lse = ln sum exp(scale Q K^T + mask)

References
----------
T. Dao, FlashAttention-2, 2023 (arXiv:2307.08691), algorithms 1 and 2.
"""

import math
from typing import Literal, overload

import numpy as np

from ops.attention.backward import attend_backward
from ops.attention.block import Geometry, whole
from ops.attention.forward import attend
from ops.lanes import LANES
from ops.seam import Array, Call

LAYOUTS = ("BNSD", "BSND")


@overload
def flash_attention(
    q: Array, k: Array, v: Array, *, layout: str = ..., causal: bool = ...,
    scale: float | None = ..., return_lse: Literal[False] = ...,
) -> Array: ...  # fmt: skip
@overload
def flash_attention(
    q: Array, k: Array, v: Array, *, layout: str = ..., causal: bool = ...,
    scale: float | None = ..., return_lse: Literal[True],
) -> tuple[Array, Array]: ...  # fmt: skip
def flash_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    layout: str = "BNSD",
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> Array | tuple[Array, Array]:
    """Attend from queries to keys and values.

    Parameters
    ----------
    q : (B, N, S, D) float32, or (B, S, N, D) where `layout` is "BSND".
    k, v : (B, M, K, D) float32, or (B, K, M, D).
    layout : order of the dimensions of all arrays, "BNSD" or "BSND".
    causal : query i sees the keys j <= i + K - S: the last query sees all (bottom right).
    scale : factor of the scores; 1 / sqrt(D) by default.
    return_lse : also return the logarithm of the summed exponentials, for the backward pass.

    Returns
    -------
    o like q, and lse (B, N, S) float32 if asked for. A query that sees no key gets 0 and -inf.

    Raises
    ------
    TypeError, ValueError : wrong type, shape or layout.
    """
    call = Call("flash_attention")
    g = _geometry(call, q, k, v, layout, causal)
    lse = call.empty((g.batch, g.heads, g.queries))
    q_D, k_D, v_D = _padded(call, q), _padded(call, k), _padded(call, v)
    o_D = call.empty(q_D.shape)
    attend(
        q_D.reshape(-1), k_D.reshape(-1), v_D.reshape(-1), _scale(scale, q), g,
        o_D.reshape(-1), lse.reshape(-1),
    )  # fmt: skip
    if o_D.size:
        call.done(_flops(g, q), 4 * (2 * q.size + k.size + v.size + lse.size))
    o = _trimmed(o_D, q)
    return (o, lse) if return_lse else o


def flash_attention_backward(
    q: Array,
    k: Array,
    v: Array,
    o: Array,
    lse: Array,
    do: Array,
    *,
    layout: str = "BNSD",
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """Compute the gradients of queries, keys and values.

    Parameters
    ----------
    q, k, v, layout, causal, scale : as in the forward pass.
    o, lse : its results.
    do : gradient of o, float32 of its shape.

    Returns
    -------
    dq, dk, dv like q, k, v. Key and value heads that are shared sum over their query heads.

    Raises
    ------
    TypeError, ValueError : wrong type, shape or layout.
    """
    call = Call("flash_attention_backward")
    g = _geometry(call, q, k, v, layout, causal)
    call.check("o", o, q.shape)
    call.check("lse", lse, (g.batch, g.heads, g.queries))
    call.check("do", do, q.shape)
    q_D, k_D, v_D, o_D, do_D = (_padded(call, x) for x in (q, k, v, o, do))
    dq, dk, dv = call.empty(q_D.shape), call.empty(k_D.shape), call.empty(v_D.shape)
    attend_backward(
        q_D.reshape(-1), k_D.reshape(-1), v_D.reshape(-1), o_D.reshape(-1), lse.reshape(-1),
        do_D.reshape(-1), _scale(scale, q), g, dq.reshape(-1), dk.reshape(-1), dv.reshape(-1),
    )  # fmt: skip
    if dq.size or dk.size:
        nbytes = 4 * (4 * q.size + 2 * k.size + 2 * v.size + lse.size)
        call.done(2.5 * _flops(g, q), nbytes)
    return _trimmed(dq, q), _trimmed(dk, k), _trimmed(dv, v)


def _geometry(call: Call, q: Array, k: Array, v: Array, layout: str, causal: bool) -> Geometry:
    """Check the arguments and take their sizes, the head size as `_padded` will make it."""
    if layout not in LAYOUTS:
        call.refuse(f"layout must be one of {', '.join(LAYOUTS)}, but is {layout!r}")
    n, s = layout.index("N"), layout.index("S")
    q_shape = call.check("q", q, (None, None, None, None))
    k_shape = call.check("k", k, (q_shape[0], None, None, q_shape[3]))
    call.check("v", v, k_shape)
    heads, kv_heads = q_shape[n], k_shape[n]
    if heads and (not kv_heads or heads % kv_heads):
        call.refuse(
            f"the heads of q must be a multiple of those of k, but they are {heads} and {kv_heads}"
        )
    queries, keys, size = q_shape[s], k_shape[s], whole(q_shape[3], LANES)
    q_head, q_row = (queries * size, size) if n < s else (size, heads * size)
    kv_head, kv_row = (keys * size, size) if n < s else (size, kv_heads * size)
    return Geometry(
        batch=q_shape[0], heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, size=size,
        q_batch=heads * queries * size, q_head=q_head, q_row=q_row,
        kv_batch=kv_heads * keys * size, kv_head=kv_head, kv_row=kv_row,
        border=keys - queries + 1 if causal else keys,
    )  # fmt: skip


def _padded(call: Call, x: Array) -> Array:
    """Fill the head size up to whole vectors with zeros, which add nothing to any score."""
    size = x.shape[-1]
    if size % LANES == 0:
        return x
    padded = call.device.memory.zeros((*x.shape[:-1], whole(size, LANES)), np.float32)
    padded[..., :size] = x
    return padded


def _trimmed(x_D: Array, like: Array) -> Array:
    size = like.shape[-1]
    return x_D if x_D.shape[-1] == size else np.ascontiguousarray(x_D[..., :size])


def _scale(scale: float | None, q: Array) -> np.float32:
    return np.float32(1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale)


def _flops(g: Geometry, q: Array) -> int:
    """Count the two products of the pairs that are kept: min(K, max(0, i + border)) for query i."""
    # Queries that see some keys but not all: they see first, first + 1, .. last.
    first, last = max(g.border, 1), min(g.queries - 1 + g.border, g.keys - 1)
    some = (first + last) * (last - first + 1) // 2 if last >= first else 0
    all_keys = min(g.queries, max(0, g.queries + g.border - g.keys))
    return 4 * g.batch * g.heads * (some + all_keys * g.keys) * int(q.shape[-1])
