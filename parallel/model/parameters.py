"""Parameters of one rank by name: views of one flat buffer of values and one of gradients.

Weights are drawn by name and element index, so a tensor has the same bits whatever else the rank
holds. Matrices come first in the buffers and gains after them: weight decay is for the first part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hcom.device import current
from ops.random import normal

Floats = npt.NDArray[np.float32]

ALIGNMENT = 16  # elements: tensors start on 64-byte borders, wherever their stage begins


@dataclass
class Parameter:
    """A named tensor; `value` and `gradient` are views that `Parameters.allocate` sets.

    Attributes
    ----------
    std : standard deviation of the first values; 0 for a gain, which starts at one.
    start : first element in the flat buffers.
    """

    name: str
    shape: tuple[int, ...]
    std: float
    start: int = field(init=False)
    value: Floats = field(init=False)
    gradient: Floats = field(init=False)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))


class Parameters:
    """The parameters that one rank holds.

    Layers declare what they need, `allocate` then lays everything out and draws the first values.

    Attributes
    ----------
    values, gradients : (size,) float32, the flat buffers; padding between tensors stays zero.
    decayed : elements from the start that weight decay applies to.
    """

    values: Floats
    gradients: Floats
    decayed: int

    def __init__(self) -> None:
        self._named: dict[str, Parameter] = {}

    def declare(self, name: str, shape: tuple[int, ...], *, std: float) -> Parameter:
        """Ask for a tensor; a name can be declared once."""
        if name in self._named:
            raise ValueError(f"parameter {name} is declared twice: give each tensor its own name")
        self._named[name] = Parameter(name, shape, std)
        return self._named[name]

    def allocate(self, seed: int) -> None:
        """Lay the tensors out, matrices first, and draw their values from `seed` by name."""
        self._place()
        for parameter in self:
            parameter.value = self._view(self.values, parameter)
            parameter.gradient = self._view(self.gradients, parameter)
            parameter.value[...] = _first_values(parameter, seed)

    def views(self, flat: Floats) -> dict[str, Floats]:
        """Name the parts of any buffer that is laid out as `values` is."""
        return {parameter.name: self._view(flat, parameter) for parameter in self}

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def __getitem__(self, name: str) -> Parameter:
        return self._named[name]

    def count(self) -> int:
        """Count the elements, without padding."""
        return sum(parameter.size for parameter in self)

    def _place(self) -> None:
        matrices = [parameter for parameter in self if parameter.std]
        gains = [parameter for parameter in self if not parameter.std]
        position = 0
        for parameter in (*matrices, *gains):
            parameter.start = position
            position += -(-parameter.size // ALIGNMENT) * ALIGNMENT
        self.decayed = gains[0].start if gains else position
        memory = current().memory
        self.values = memory.zeros((position,), np.float32)
        self.gradients = memory.zeros((position,), np.float32)

    @staticmethod
    def _view(flat: Floats, parameter: Parameter) -> Floats:
        return flat[parameter.start : parameter.start + parameter.size].reshape(parameter.shape)


def _first_values(parameter: Parameter, seed: int) -> Floats:
    if not parameter.std:
        return np.ones(parameter.shape, np.float32)
    drawn = normal(seed, parameter.name, 0, parameter.size)
    drawn *= np.float32(parameter.std)
    return drawn.reshape(parameter.shape)
