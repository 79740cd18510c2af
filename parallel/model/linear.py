"""The linear layer: y = x w, without bias.

T  tokens      D  input features      F  output features
"""

import ops
from parallel.model.layer import Floats, Layer
from parallel.model.parameters import Parameters


class Linear(Layer):
    """A matrix of weights, held whole by every rank of the stage."""

    def __init__(self, parameters: Parameters, name: str, shape: tuple[int, int], std: float):
        self.weight = parameters.declare(name, shape, std=std)

    def forward(self, x_TD: Floats) -> tuple[Floats, Floats]:
        """Multiply by the weights; the input is saved."""
        return ops.linear(x_TD, self.weight.value), x_TD

    def backward_input(self, x_TD: Floats, dy_TF: Floats) -> Floats:
        """Multiply by the weights transposed."""
        return ops.linear_backward_input(dy_TF, self.weight.value)

    def backward_weight(self, x_TD: Floats, dy_TF: Floats) -> None:
        """Add x' dy."""
        ops.linear_backward_weight(x_TD, dy_TF, out=self.weight.gradient)
