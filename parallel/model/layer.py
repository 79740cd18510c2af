"""What a layer is, and the two ways to put layers together: in a chain and around a residual.

There is no tape. A layer returns what it saved; its backward comes in two halves, because
zero-bubble pipelines run them apart: `backward_input` first, `backward_weight` at any later time.

    T  tokens (sequences x sequence positions of this rank)      D  features
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import ops

Floats = npt.NDArray[np.float32]
Saved = Any  # what a layer's forward keeps for its own backward; nobody else looks inside


class Layer(ABC):
    """A function of activations with parameters of its own."""

    @abstractmethod
    def forward(self, x: Floats) -> tuple[Floats, Saved]:
        """Compute the output, and what backward needs."""

    @abstractmethod
    def backward_input(self, saved: Saved, dy: Floats) -> Floats:
        """Compute the gradient of the input."""

    def backward_weight(self, saved: Saved, dy: Floats) -> None:
        """Add the gradients of the parameters to their buffers.

        Comes after `backward_input` for the same `saved`. A layer without parameters has none.
        """
        return


@dataclass
class ChainSaved:
    """What the layers of a chain saved, and the gradient that each received."""

    saved: list[Saved]
    dys: list[Floats] = field(default_factory=list)


class Chain(Layer):
    """Layers one after another."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = layers

    def forward(self, x: Floats) -> tuple[Floats, ChainSaved]:
        """Run the layers in order."""
        record = ChainSaved([])
        for layer in self.layers:
            x, saved = layer.forward(x)
            record.saved.append(saved)
        return x, record

    def backward_input(self, saved: ChainSaved, dy: Floats) -> Floats:
        """Run the layers backwards, keeping each one's dy for `backward_weight`."""
        saved.dys = []
        for layer, layer_saved in zip(reversed(self.layers), reversed(saved.saved), strict=True):
            saved.dys.append(dy)
            dy = layer.backward_input(layer_saved, dy)
        return dy

    def backward_weight(self, saved: ChainSaved, dy: Floats) -> None:
        """Run the second halves, last layer first."""
        backwards = zip(reversed(self.layers), reversed(saved.saved), saved.dys, strict=True)
        for layer, layer_saved, layer_dy in backwards:
            layer.backward_weight(layer_saved, layer_dy)


class Residual(Layer):
    """A branch added to its own input: x + branch(x)."""

    def __init__(self, *branch: Layer) -> None:
        self.branch = Chain(*branch)

    def forward(self, x_TD: Floats) -> tuple[Floats, ChainSaved]:
        """Run the branch and add."""
        y_TD, saved = self.branch.forward(x_TD)
        return ops.add(x_TD, y_TD), saved

    def backward_input(self, saved: ChainSaved, dy_TD: Floats) -> Floats:
        """Add the gradient through the branch to the one around it."""
        return ops.add(dy_TD, self.branch.backward_input(saved, dy_TD))

    def backward_weight(self, saved: ChainSaved, dy_TD: Floats) -> None:
        """Leave it to the branch."""
        self.branch.backward_weight(saved, dy_TD)
