"""Cross entropy of logits against target tokens, in nats.

Shapes: T tokens, V vocabulary.

    loss_sum = sum_T (lse - logits[target])      dlogits = scale (softmax(logits) - onehot(target))
"""

import numpy as np

from hcom.jit import jit
from ops.embedding import check_range
from ops.seam import INT64, Array, Call, Tokens
from ops.vector_math import exp, log


def cross_entropy(logits_TV: Array, targets_T: Tokens) -> tuple[float, Array]:
    """Sum the cross entropy over the tokens.

    Parameters
    ----------
    logits_TV : (T, V) float32.
    targets_T : (T,) int64 in [0, V).

    Returns
    -------
    The sum (a float, accumulated in float64 in the order of the tokens), and lse (T,) float32: the
    logarithm of the summed exponentials of each row, which the backward pass needs.

    Raises
    ------
    TypeError, ValueError : wrong type or shape, or a target outside the vocabulary.
    """
    call = Call("cross_entropy")
    tokens, width = call.check("logits_TV", logits_TV, (None, None))
    call.check("targets_T", targets_T, (tokens,), INT64)
    check_range(call, "targets_T", targets_T, width)
    lse_T = call.empty((tokens,))
    _log_sum_exp(logits_TV, lse_T)
    loss = _sum_losses(logits_TV, targets_T, lse_T)
    call.done(flops=4 * logits_TV.size, nbytes=4 * logits_TV.size + 16 * tokens)
    return loss, lse_T


def cross_entropy_backward(
    logits_TV: Array, targets_T: Tokens, lse_T: Array, scale: float
) -> Array:
    """Compute the gradient of `scale` times the summed cross entropy.

    Parameters
    ----------
    logits_TV : (T, V) float32.
    targets_T : (T,) int64 in [0, V).
    lse_T : (T,) float32 from the forward pass.
    scale : 1 / number of tokens of all ranks, where the loss is their mean.

    Returns
    -------
    (T, V) float32.
    """
    call = Call("cross_entropy_backward")
    tokens, width = call.check("logits_TV", logits_TV, (None, None))
    call.check("targets_T", targets_T, (tokens,), INT64)
    call.check("lse_T", lse_T, (tokens,))
    check_range(call, "targets_T", targets_T, width)
    dlogits_TV = call.empty((tokens, width))
    _backward(logits_TV, targets_T, lse_T, np.float32(scale), dlogits_TV)
    call.done(flops=3 * logits_TV.size, nbytes=8 * logits_TV.size + 16 * tokens)
    return dlogits_TV


@jit(fast=True)
def _log_sum_exp(logits: Array, lse: Array) -> None:
    tokens, width = logits.shape
    for row in range(tokens):
        y = logits[row]
        top = np.float32(-np.inf)
        for i in range(width):
            top = y[i] if y[i] > top else top
        base = np.float32(0) if top == -np.inf else top
        total = np.float32(0)
        for i in range(width):
            total += exp(y[i] - base)
        lse[row] = base + log(total)


@jit()
def _sum_losses(logits: Array, targets: Tokens, lse: Array) -> float:
    total = 0.0
    for row in range(targets.size):
        total += np.float64(lse[row]) - np.float64(logits[row, targets[row]])
    return total


@jit()
def _backward(
    logits: Array, targets: Tokens, lse: Array, scale: np.float32, dlogits: Array
) -> None:
    tokens, width = logits.shape
    for row in range(tokens):
        y, dy, base = logits[row], dlogits[row], lse[row]
        for i in range(width):
            dy[i] = exp(y[i] - base) * scale
        dy[targets[row]] -= scale
