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
from ops.attention.block import Geometry
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
    o = call.empty(q_D.shape)
    attend(
        q_D.reshape(-1), k_D.reshape(-1), v_D.reshape(-1), _scale(scale, q), _strides(g, layout),
        o.reshape(-1), lse.reshape(-1),
    )  # fmt: skip
    if o.size:
        call.done(_flops(g), 4 * (2 * q.size + k.size + v.size + lse.size))
    o = _trimmed(o, g.size)
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
        do_D.reshape(-1), _scale(scale, q), _strides(g, layout),
        dq.reshape(-1), dk.reshape(-1), dv.reshape(-1),
    )  # fmt: skip
    nbytes = 4 * (4 * q.size + 2 * k.size + 2 * v.size + lse.size)
    if dq.size or dk.size:
        call.done(2.5 * _flops(g), nbytes)
    return _trimmed(dq, g.size), _trimmed(dk, g.size), _trimmed(dv, g.size)


def _geometry(call: Call, q: Array, k: Array, v: Array, layout: str, causal: bool) -> Geometry:
    """Check the arguments and take their sizes."""
    if layout not in LAYOUTS:
        call.refuse(f"layout must be one of {', '.join(LAYOUTS)}, but is {layout!r}")
    n, s = layout.index("N"), layout.index("S")
    q_shape = call.check("q", q, (None, None, None, None))
    sizes: list[int | None] = [q_shape[0], None, None, q_shape[3]]
    k_shape = call.check("k", k, tuple(sizes))
    call.check("v", v, k_shape)
    heads, kv_heads = q_shape[n], k_shape[n]
    if heads and (not kv_heads or heads % kv_heads):
        call.refuse(
            f"the heads of q must be a multiple of those of k, but they are {heads} and {kv_heads}"
        )
    queries, keys, size = q_shape[s], k_shape[s], q_shape[3]
    border = keys - queries + 1 if causal else keys
    return Geometry(q_shape[0], heads, kv_heads, queries, keys, size, 0, 0, 0, 0, 0, 0, border)


def _strides(g: Geometry, layout: str) -> Geometry:
    """Fill in the strides, in floats, for head sizes padded to whole vectors."""
    size = _whole(g.size)
    by_head = layout == "BNSD"
    q_head, q_row = (g.queries * size, size) if by_head else (size, g.heads * size)
    kv_head, kv_row = (g.keys * size, size) if by_head else (size, g.kv_heads * size)
    return g._replace(
        size=size,
        q_batch=g.heads * g.queries * size, q_head=q_head, q_row=q_row,
        kv_batch=g.kv_heads * g.keys * size, kv_head=kv_head, kv_row=kv_row,
    )  # fmt: skip


def _whole(size: int) -> int:
    return -(-size // LANES) * LANES


def _padded(call: Call, x: Array) -> Array:
    """Fill the head size up to whole vectors with zeros, which add nothing to any score."""
    size = x.shape[-1]
    if size % LANES == 0:
        return x
    padded = call.device.memory.zeros((*x.shape[:-1], _whole(size)), np.float32)
    padded[..., :size] = x
    return padded


def _trimmed(x: Array, size: int) -> Array:
    return x if x.shape[-1] == size else np.ascontiguousarray(x[..., :size])


def _scale(scale: float | None, q: Array) -> np.float32:
    size = q.shape[-1]
    return np.float32(1 / math.sqrt(max(size, 1)) if scale is None else scale)


def _flops(g: Geometry) -> int:
    """Count the two products of the kept pairs of queries and keys."""
    last = g.queries - 1 + g.border  # what the last query would see of endless keys
    first = g.border
    if first >= g.keys:
        pairs = g.queries * g.keys
    else:
        low, high = max(first, 1), min(last, g.keys)
        climbing = (low + high) * (high - low + 1) // 2 if high >= low else 0
        pairs = climbing + max(0, last - g.keys) * g.keys
    return 4 * g.batch * g.heads * pairs * g.size
