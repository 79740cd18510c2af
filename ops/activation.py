"""Activations of the feed-forward layer: SwiGLU, and GELU in its tanh form.

Shapes: T tokens, F features, 2F both halves of a gated layer. With s the logistic function:

    swiglu: y = a s(a) b, (a, b) the halves of x     da = dy b s (1 + a (1 - s))     db = dy a s
    gelu:   y = x (1 + tanh u) / 2 = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3)

References
----------
N. Shazeer, GLU Variants Improve Transformer, 2020 (arXiv:2002.05202), section 2.
D. Hendrycks, K. Gimpel, Gaussian Error Linear Units, 2016 (arXiv:1606.08415), section 2.
"""

import numpy as np

from hcom.jit import jit
from ops.lanes import below
from ops.seam import Array, Call
from ops.vector_math import sigmoid

ONE = np.float32(1.0)
THREE = np.float32(3.0)
TWICE_SQRT_2_PI = np.float32(1.5957691216057308)
CUBIC = np.float32(0.044715)
# Beyond it GELU's derivative is 1 or 0 in float32, where x^2 might overflow.
FLAT = np.float32(12.0)


def swiglu(x_T2F: Array) -> Array:
    """Gate the second half of the features by the SiLU of the first.

    Parameters
    ----------
    x_T2F : (T, 2F) float32.

    Returns
    -------
    (T, F) float32.
    """
    call = Call("swiglu")
    tokens, width = _halves(call, x_T2F)
    y_TF = call.empty((tokens, width))
    _swiglu(x_T2F, y_TF)
    call.done(flops=8 * y_TF.size, nbytes=12 * y_TF.size)
    return y_TF


def swiglu_backward(dy_TF: Array, x_T2F: Array) -> Array:
    """Compute the gradient of SwiGLU's input.

    Parameters
    ----------
    dy_TF : (T, F) float32.
    x_T2F : (T, 2F) float32, the input of the forward pass.

    Returns
    -------
    (T, 2F) float32.
    """
    call = Call("swiglu_backward")
    tokens, width = _halves(call, x_T2F)
    call.check("dy_TF", dy_TF, (tokens, width))
    dx_T2F = call.empty((tokens, 2 * width))
    _swiglu_backward(dy_TF, x_T2F, dx_T2F)
    call.done(flops=14 * dy_TF.size, nbytes=20 * dy_TF.size)
    return dx_T2F


def gelu(x_TF: Array) -> Array:
    """Apply the Gaussian error linear unit in its tanh form.

    Parameters
    ----------
    x_TF : (T, F) float32.

    Returns
    -------
    (T, F) float32.
    """
    call = Call("gelu")
    shape = call.check("x_TF", x_TF, (None, None))
    y_TF = call.empty((shape[0], shape[1]))
    _gelu(x_TF.reshape(-1), y_TF.reshape(-1))
    call.done(flops=14 * x_TF.size, nbytes=8 * x_TF.size)
    return y_TF


def gelu_backward(dy_TF: Array, x_TF: Array) -> Array:
    """Compute the gradient of GELU's input.

    Parameters
    ----------
    dy_TF, x_TF : (T, F) float32; x is the input of the forward pass.

    Returns
    -------
    (T, F) float32.
    """
    call = Call("gelu_backward")
    shape = call.check("dy_TF", dy_TF, (None, None))
    call.check("x_TF", x_TF, shape)
    dx_TF = call.empty((shape[0], shape[1]))
    _gelu_backward(dy_TF.reshape(-1), x_TF.reshape(-1), dx_TF.reshape(-1))
    call.done(flops=20 * x_TF.size, nbytes=12 * x_TF.size)
    return dx_TF


def _halves(call: Call, x_T2F: Array) -> tuple[int, int]:
    """Return T and F of a (T, 2F) argument."""
    tokens, width = call.check("x_T2F", x_T2F, (None, None))
    if width % 2:
        call.refuse(f"x_T2F must have an even number of features, but has {width}")
    return tokens, width // 2


@jit()
def _swiglu(x: Array, y: Array) -> None:
    tokens, width = y.shape
    for row in range(tokens):
        x_2F, y_F = x[row], y[row]
        for i in range(width):
            y_F[i] = x_2F[i] * sigmoid(x_2F[i]) * x_2F[width + i]


@jit()
def _swiglu_backward(dy: Array, x: Array, dx: Array) -> None:
    tokens, width = dy.shape
    for row in range(tokens):
        dy_F, x_2F, dx_2F = dy[row], x[row], dx[row]
        for i in range(width):
            a, b, s = x_2F[i], x_2F[width + i], sigmoid(x_2F[i])
            dx_2F[i] = dy_F[i] * b * s * (ONE + a * (ONE - s))
            dx_2F[width + i] = dy_F[i] * a * s


@jit()
def _gelu(x: Array, y: Array) -> None:
    for i in range(x.size):
        v = x[i]
        y[i] = v * sigmoid(TWICE_SQRT_2_PI * (v + CUBIC * v * v * v))


@jit()
def _gelu_backward(dy: Array, x: Array, dx: Array) -> None:
    for i in range(x.size):
        v = below(x[i], -FLAT, -FLAT, below(FLAT, x[i], FLAT, x[i]))
        s = sigmoid(TWICE_SQRT_2_PI * (v + CUBIC * v * v * v))
        slope = TWICE_SQRT_2_PI * (ONE + THREE * CUBIC * v * v)
        dx[i] = dy[i] * (s + v * s * (ONE - s) * slope)
