"""The one seam of operators: check the input, allocate from the device, state the cost.

Every operator opens a `Call`, checks its arguments with it before anything is done, takes its
outputs from it and closes it with its flops and bytes:

    call = Call("swiglu")
    tokens, width = call.check("x_T2F", x_T2F, (None, None))
    y_TF = call.empty((tokens, width // 2))
    _swiglu(x_T2F, y_TF)
    call.done(flops=..., nbytes=...)

Linear layers and attention run on threads. The others do little arithmetic for what they read and
take microseconds, in which threads could not even be started: they run on one, in a fixed order.
"""

from time import perf_counter
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hcom.device import current

Array: TypeAlias = NDArray[np.float32]
Tokens: TypeAlias = NDArray[np.int64]
Sizes: TypeAlias = tuple[int | None, ...]

FLOAT32 = np.dtype(np.float32)
INT64 = np.dtype(np.int64)


class Call:
    """One use of an operator, from its checks to its cost.

    Parameters
    ----------
    name : the operator's name, in messages and in the trace.
    """

    __slots__ = ("device", "name", "start")

    def __init__(self, name: str) -> None:
        self.start = perf_counter()
        self.name = name
        self.device = current()

    def check(
        self, argument: str, value: Any, sizes: Sizes, dtype: np.dtype[Any] = FLOAT32
    ) -> tuple[int, ...]:
        """Return an argument's shape, or refuse it.

        Parameters
        ----------
        argument : its name in the signature.
        value : the array that came.
        sizes : the length of each dimension, None where any is right.
        dtype : the type it must have.

        Raises
        ------
        TypeError : it is no numpy array, or of another type.
        ValueError : its shape differs, or it is not C-contiguous.
        """
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            self.refuse_type(argument, value, dtype)
        shape: tuple[int, ...] = value.shape
        if len(shape) != len(sizes):
            self._refuse_shape(argument, shape, sizes)
        for have, want in zip(shape, sizes, strict=True):
            if want is not None and have != want:
                self._refuse_shape(argument, shape, sizes)
        if not value.flags.c_contiguous:
            self.refuse(
                f"{argument} must be C-contiguous, but has shape {shape} and strides "
                f"{value.strides}; numpy.ascontiguousarray makes such a copy"
            )
        return shape

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Allocate a float32 output of undefined content from the device's memory."""
        return self.device.memory.empty(shape, FLOAT32)

    def accumulator(self, out: Array | None, shape: tuple[int, ...]) -> Array:
        """Return the array that a gradient is added into: `out` checked, or new zeros."""
        if out is None:
            return self.device.memory.zeros(shape, FLOAT32)
        self.check("out", out, shape)
        if not out.flags.writeable:
            self.refuse("out must be writeable, but is a read-only array")
        return out

    def done(self, flops: float, nbytes: float, launches: int = 1) -> None:
        """State the cost of what has run; what has none, being empty, is not launched.

        Parameters
        ----------
        flops : floating-point operations.
        nbytes : bytes that a fused kernel reads and writes at least.
        launches : kernels that an NPU would start.
        """
        if flops or nbytes:
            self.device.launch(self.name, flops, nbytes, launches=launches, wall_start=self.start)

    def refuse(self, problem: str) -> NoReturn:
        """Raise ValueError naming the operator."""
        raise ValueError(f"{self.name}: {problem}")

    def refuse_type(self, argument: str, value: Any, dtype: np.dtype[Any]) -> NoReturn:
        """Raise TypeError naming the operator, the argument, what was expected and what came."""
        came = (
            f"{value.dtype} of shape {value.shape}"
            if isinstance(value, np.ndarray)
            else type(value).__name__
        )
        raise TypeError(f"{self.name}: {argument} must be a {dtype} array, but is {came}")

    def _refuse_shape(self, argument: str, shape: tuple[int, ...], sizes: Sizes) -> NoReturn:
        wanted = ", ".join("any" if size is None else str(size) for size in sizes)
        self.refuse(f"{argument} must have shape ({wanted}), but has {shape}")
