"""The activations of the feed-forward part: SwiGLU (Shazeer 2020) and GELU in its tanh form."""

import ops
from parallel.model.layer import Floats, Layer


class SwiGLU(Layer):
    """silu(gate) * up, from 2 F features (gate first) to F."""

    def forward(self, x_T2F: Floats) -> tuple[Floats, Floats]:
        """Gate one half by the other; the input is saved."""
        return ops.swiglu(x_T2F), x_T2F

    def backward_input(self, x_T2F: Floats, dy_TF: Floats) -> Floats:
        """Compute the gradient of both halves."""
        return ops.swiglu_backward(dy_TF, x_T2F)


class GELU(Layer):
    """The Gaussian error linear unit."""

    def forward(self, x_TF: Floats) -> tuple[Floats, Floats]:
        """Apply it to each element; the input is saved."""
        return ops.gelu(x_TF), x_TF

    def backward_input(self, x_TF: Floats, dy_TF: Floats) -> Floats:
        """Multiply by its slope."""
        return ops.gelu_backward(dy_TF, x_TF)
