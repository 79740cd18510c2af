"""Rotary position embedding, mode half: feature i turns together with feature i + D/2.

Shapes: B batch, N heads, S positions, D head size, H = D/2.

    y1 = x1 cos - x2 sin        y2 = x2 cos + x1 sin        (x1, x2 the two halves of D)

A rotation's gradient is the rotation back: the same with -sin.

References
----------
J. Su et al., RoFormer, 2021 (arXiv:2104.09864), section 3.2; CANN RotaryPositionEmbedding, mode 0.
"""

import numpy as np
from numpy.typing import ArrayLike

from hcom.jit import jit
from ops.seam import Array, Call


def rotary_table(
    positions_S: ArrayLike, head_size: int, base: float = 10000.0
) -> tuple[Array, Array]:
    """Tabulate cos and sin of position * base^(-2 i / D), computed in float64.

    Parameters
    ----------
    positions_S : (S,) positions, global ones where a rank holds a part of the sequence.
    head_size : D, even.
    base : wavelength of the slowest pair is about 2 pi base.

    Returns
    -------
    cos and sin, (S, D/2) float32.

    Raises
    ------
    ValueError : the head size is odd or not positive.
    """
    if head_size < 2 or head_size % 2:
        raise ValueError(f"rotary_table: head_size must be even and positive, but is {head_size}")
    half = head_size // 2
    frequencies_H = float(base) ** (-np.arange(half, dtype=np.float64) / half)
    angles_SH = np.outer(np.asarray(positions_S, dtype=np.float64), frequencies_H)
    return np.cos(angles_SH).astype(np.float32), np.sin(angles_SH).astype(np.float32)


def rotary(x_BNSD: Array, cos_SH: Array, sin_SH: Array) -> Array:
    """Rotate every head by its position.

    Parameters
    ----------
    x_BNSD : (B, N, S, D) float32, D even.
    cos_SH, sin_SH : (S, D/2) float32 from `rotary_table`.

    Returns
    -------
    (B, N, S, D) float32.
    """
    return _rotated(Call("rotary"), "x_BNSD", x_BNSD, cos_SH, sin_SH, 1.0)


def rotary_backward(dy_BNSD: Array, cos_SH: Array, sin_SH: Array) -> Array:
    """Compute the gradient of the input: rotate back.

    Parameters
    ----------
    dy_BNSD : (B, N, S, D) float32.
    cos_SH, sin_SH : (S, D/2) float32, those of the forward pass.

    Returns
    -------
    (B, N, S, D) float32.
    """
    return _rotated(Call("rotary_backward"), "dy_BNSD", dy_BNSD, cos_SH, sin_SH, -1.0)


def _rotated(
    call: Call, argument: str, x: Array, cos_SH: Array, sin_SH: Array, direction: float
) -> Array:
    batch, heads, sequence, size = call.check(argument, x, (None, None, None, None))
    if size % 2:
        call.refuse(f"the head size, last of {argument}, must be even, but is {size}")
    call.check("cos_SH", cos_SH, (sequence, size // 2))
    call.check("sin_SH", sin_SH, (sequence, size // 2))
    y = call.empty((batch, heads, sequence, size))
    rows = (batch * heads, sequence, size)
    _rotate(x.reshape(rows), cos_SH, sin_SH, np.float32(direction), y.reshape(rows))
    call.done(flops=3 * x.size, nbytes=8 * x.size)
    return y


@jit()
def _rotate(x: Array, cos: Array, sin: Array, direction: np.float32, y: Array) -> None:
    heads, sequence, size = x.shape
    half = size // 2
    for head in range(heads):
        for s in range(sequence):
            x_D, y_D, c, t = x[head, s], y[head, s], cos[s], sin[s]
            for i in range(half):
                a, b, turn = x_D[i], x_D[half + i], t[i] * direction
                y_D[i] = a * c[i] - b * turn
                y_D[half + i] = b * c[i] + a * turn
