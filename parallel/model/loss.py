"""Cross entropy over the vocabulary, summed over tokens in float64.

T  tokens of this rank      V  vocabulary
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import ops
from parallel.model.layer import Floats

Tokens = npt.NDArray[np.int64]


class LossSaved(NamedTuple):
    """The logits (T, V), the targets (T,), and each token's log-sum-exp (T,)."""

    logits: Floats
    targets: Tokens
    lse: Floats


def cross_entropy(logits_TV: Floats, targets_T: Tokens) -> tuple[float, LossSaved]:
    """Sum the tokens' losses in nats."""
    loss_sum, lse_T = ops.cross_entropy(logits_TV, targets_T)
    return loss_sum, LossSaved(logits_TV, targets_T, lse_T)


def cross_entropy_backward(saved: LossSaved, scale: float) -> Floats:
    """Compute the gradient of `scale` times the sum: scale is one over the step's token count."""
    return ops.cross_entropy_backward(saved.logits, saved.targets, saved.lse, scale)
