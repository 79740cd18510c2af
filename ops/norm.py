"""RMS normalisation: y = x / sqrt(mean(x^2) + epsilon) * gamma, row by row in float32.

Shapes: T tokens, D features. With r = rstd_T and xhat = x r:

    dx = r (dy gamma - xhat mean(dy gamma xhat))        dgamma = sum_T dy xhat

References
----------
B. Zhang, R. Sennrich, Root Mean Square Layer Normalization, 2019 (arXiv:1910.07467), section 4.
"""

import numpy as np

from hcom.jit import jit
from ops.seam import Array, Call

SUM_BLOCK = 64  # rows of a weight's gradient that are summed on their own


def rms_norm(x_TD: Array, gamma_D: Array, epsilon: float = 1e-6) -> tuple[Array, Array]:
    """Normalise every row to a root mean square of 1 and scale it.

    Parameters
    ----------
    x_TD : (T, D) float32.
    gamma_D : (D,) float32.
    epsilon : added to the mean square.

    Returns
    -------
    (T, D) float32, and rstd (T,) float32, which the backward pass needs.
    """
    call = Call("rms_norm")
    tokens, width = call.check("x_TD", x_TD, (None, None))
    call.check("gamma_D", gamma_D, (width,))
    y_TD, rstd_T = call.empty((tokens, width)), call.empty((tokens,))
    _forward(x_TD, gamma_D, np.float32(epsilon), y_TD, rstd_T)
    call.done(flops=4 * x_TD.size, nbytes=8 * x_TD.size)
    return y_TD, rstd_T


def rms_norm_backward_input(dy_TD: Array, x_TD: Array, gamma_D: Array, rstd_T: Array) -> Array:
    """Compute the gradient of the input.

    Parameters
    ----------
    dy_TD, x_TD : (T, D) float32.
    gamma_D : (D,) float32.
    rstd_T : (T,) float32 from the forward pass.

    Returns
    -------
    (T, D) float32.
    """
    call = Call("rms_norm_backward_input")
    tokens, width = call.check("dy_TD", dy_TD, (None, None))
    call.check("x_TD", x_TD, (tokens, width))
    call.check("gamma_D", gamma_D, (width,))
    call.check("rstd_T", rstd_T, (tokens,))
    dx_TD = call.empty((tokens, width))
    _backward_input(dy_TD, x_TD, gamma_D, rstd_T, dx_TD)
    call.done(flops=7 * x_TD.size, nbytes=12 * x_TD.size)
    return dx_TD


def rms_norm_backward_weight(
    dy_TD: Array, x_TD: Array, rstd_T: Array, *, out: Array | None = None
) -> Array:
    """Compute the gradient of gamma, added into `out` when given.

    Parameters
    ----------
    dy_TD, x_TD : (T, D) float32.
    rstd_T : (T,) float32 from the forward pass.
    out : (D,) float32 to add into; by default a new array.

    Returns
    -------
    (D,) float32: `out`, or the new array.
    """
    call = Call("rms_norm_backward_weight")
    tokens, width = call.check("dy_TD", dy_TD, (None, None))
    call.check("x_TD", x_TD, (tokens, width))
    call.check("rstd_T", rstd_T, (tokens,))
    dgamma_D = call.accumulator(out, (width,))
    _backward_weight(dy_TD, x_TD, rstd_T, dgamma_D)
    call.done(flops=3 * x_TD.size, nbytes=8 * x_TD.size)
    return dgamma_D


@jit(fast=True)
def _forward(x: Array, gamma: Array, epsilon: np.float32, y: Array, rstd: Array) -> None:
    tokens, width = x.shape
    for row in range(tokens):
        x_D, y_D = x[row], y[row]
        total = np.float32(0)
        for i in range(width):
            total += x_D[i] * x_D[i]
        r = np.float32(1) / np.sqrt(total / np.float32(width) + epsilon)
        rstd[row] = r
        for i in range(width):
            y_D[i] = x_D[i] * r * gamma[i]


@jit(fast=True)
def _backward_input(dy: Array, x: Array, gamma: Array, rstd: Array, dx: Array) -> None:
    tokens, width = x.shape
    for row in range(tokens):
        dy_D, x_D, dx_D, r = dy[row], x[row], dx[row], rstd[row]
        total = np.float32(0)
        for i in range(width):
            total += dy_D[i] * gamma[i] * x_D[i]
        slope = total / np.float32(width) * r * r
        for i in range(width):
            dx_D[i] = r * (dy_D[i] * gamma[i] - x_D[i] * slope)


@jit(fast=True)
def _backward_weight(dy: Array, x: Array, rstd: Array, out: Array) -> None:
    """Sum each block of rows on its own, then add it: fixed order, and errors stay small."""
    tokens, width = x.shape
    block = np.empty(width, np.float32)
    for first in range(0, tokens, SUM_BLOCK):
        block[:] = np.float32(0)
        for row in range(first, min(tokens, first + SUM_BLOCK)):
            dy_D, x_D, r = dy[row], x[row], rstd[row]
            for i in range(width):
                block[i] += dy_D[i] * (x_D[i] * r)
        for i in range(width):
            out[i] += block[i]
