"""The optimizer's kernels: one AdamW step in place, and the sum of squares for clipping.

References
----------
I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, 2017 (arXiv:1711.05101), alg. 2.
"""

import math

import numpy as np

from hcom.jit import jit
from ops.seam import Array, Call

BLOCK = 4096  # elements that are summed on their own


def adamw(
    param: Array,
    grad: Array,
    m: Array,
    v: Array,
    *,
    step: int,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    scale: float = 1.0,
) -> None:
    """Take one step in place; `param`, `m` and `v` change.

    Parameters
    ----------
    param, grad, m, v : float32 arrays of one shape; m and v are the moments, zeros before step 1.
    step : counts from 1.
    learning_rate : of this step.
    beta1, beta2 : decay of the moments, in [0, 1).
    epsilon : added to the root of the second moment.
    weight_decay : fraction of the learning rate that a weight loses.
    scale : multiplies the gradient first (clipping).

    Raises
    ------
    TypeError, ValueError : wrong type or shape, a step below 1, or a beta outside [0, 1).
    """
    call = Call("adamw")
    shape = call.check("param", param, (None,) * np.ndim(param))
    for argument, value in (("grad", grad), ("m", m), ("v", v)):
        call.check(argument, value, shape)
    if step < 1 or not (0 <= beta1 < 1 and 0 <= beta2 < 1):
        call.refuse(
            f"step must be at least 1 and both betas in [0, 1), but step={step}, "
            f"beta1={beta1}, beta2={beta2}"
        )
    # Both bias corrections, in float64: step size lr / (1 - b1^t), root of v / (1 - b2^t).
    factors = np.array(
        [scale, beta1, 1 - beta1, beta2, 1 - beta2, learning_rate / (1 - beta1**step),
         1 / math.sqrt(1 - beta2**step), epsilon, 1 - learning_rate * weight_decay],
        dtype=np.float32,
    )  # fmt: skip
    _adamw(param.reshape(-1), grad.reshape(-1), m.reshape(-1), v.reshape(-1), factors)
    call.done(flops=14 * param.size, nbytes=28 * param.size)


def sum_of_squares(x: Array) -> float:
    """Sum the squares of all elements in float64, in one fixed order.

    Parameters
    ----------
    x : float32 array of any shape.

    Returns
    -------
    The sum.
    """
    call = Call("sum_of_squares")
    call.check("x", x, (None,) * np.ndim(x))
    total = float(_sum_of_squares(x.reshape(-1)))
    call.done(flops=2 * x.size, nbytes=4 * x.size)
    return total


@jit()
def _adamw(param: Array, grad: Array, m: Array, v: Array, factors: Array) -> None:
    scale, keep1, take1, keep2, take2, rate, root, epsilon, shrink = (
        factors[0], factors[1], factors[2], factors[3], factors[4], factors[5], factors[6],
        factors[7], factors[8],
    )  # fmt: skip
    for i in range(param.size):
        g = grad[i] * scale
        m[i] = keep1 * m[i] + take1 * g
        v[i] = keep2 * v[i] + take2 * g * g
        param[i] = param[i] * shrink - rate * m[i] / (np.sqrt(v[i]) * root + epsilon)


@jit(fast=True)
def _sum_of_squares(x: Array) -> float:
    """Sum each block on its own, then add it: errors stay small."""
    total = 0.0
    for first in range(0, x.size, BLOCK):
        block, part = x[first : first + BLOCK], 0.0
        for i in range(block.size):
            part += np.float64(block[i]) * np.float64(block[i])
        total += part
    return total
