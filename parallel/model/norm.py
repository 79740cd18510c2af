"""The norm layer: root mean square over the features, with a gain (Zhang and Sennrich 2019)."""

from typing import NamedTuple

import ops
from parallel.model.layer import Floats, Layer
from parallel.model.parameters import Parameters


class NormSaved(NamedTuple):
    """The input (T, D), and the reciprocal root mean square of each token (T,)."""

    x: Floats
    rstd: Floats


class RMSNorm(Layer):
    """Scale every token to root mean square one, then by a gain per feature."""

    def __init__(self, parameters: Parameters, name: str, features: int):
        self.gain = parameters.declare(name, (features,), std=0.0)

    def forward(self, x_TD: Floats) -> tuple[Floats, NormSaved]:
        """Normalise each token."""
        y_TD, rstd_T = ops.rms_norm(x_TD, self.gain.value)
        return y_TD, NormSaved(x_TD, rstd_T)

    def backward_input(self, saved: NormSaved, dy_TD: Floats) -> Floats:
        """Compute the gradient of the input."""
        return ops.rms_norm_backward_input(dy_TD, saved.x, self.gain.value, saved.rstd)

    def backward_weight(self, saved: NormSaved, dy_TD: Floats) -> None:
        """Add the gradient of the gain."""
        ops.rms_norm_backward_weight(dy_TD, saved.x, saved.rstd, out=self.gain.gradient)
