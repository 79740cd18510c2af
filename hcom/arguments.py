"""Checks of a call's arguments, before anything is sent; each error names argument and rule."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hcom.data_type import data_type_of

Array = npt.NDArray[Any]


def check_array(x: object, name: str) -> Array:
    """Require a numpy array of a type that travels.

    Raises
    ------
    TypeError : not an array, or of another type.
    """
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, not {type(x).__name__}")
    data_type_of(x)
    return x


def contiguous(x: Array) -> Array:
    """Return x, or a copy in C order (0-d arrays stay 0-d)."""
    return x if x.flags.c_contiguous else x.copy(order="C")


def check_out(out: Array, shape: Sequence[int], dtype: np.dtype[Any], x: Array | None) -> None:
    """Require an output of the right shape and type that may be written.

    It may be the input itself, but not overlap it otherwise.

    Raises
    ------
    ValueError, TypeError : it is not.
    """
    check_array(out, "out")
    if out.dtype != dtype:
        raise TypeError(f"out must have the input's type {dtype}, not {out.dtype}")
    if out.shape != tuple(shape):
        raise ValueError(f"out must have shape {tuple(shape)}, not {out.shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    if x is not None and not same_memory(out, x) and np.shares_memory(out, x):
        raise ValueError("out overlaps x; pass x itself (in place) or an array of its own")


def same_memory(a: Array, b: Array) -> bool:
    """Tell whether two arrays are one and the same memory, element by element."""
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides


def check_rank(value: object, name: str, rank_size: int) -> int:
    """Require a rank of the group.

    Raises
    ------
    TypeError, ValueError : no integer, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if not 0 <= value < rank_size:
        raise ValueError(f"{name} must be a rank of the group, 0 to {rank_size - 1}, not {value}")
    return int(value)


def check_counts(counts: Sequence[int] | Array, rank_size: int, name: str) -> tuple[int, ...]:
    """Require one count of rows a rank.

    Raises
    ------
    TypeError, ValueError : no integers, negative, or not as many as ranks.
    """
    values = [check_count(value, f"{name}[{i}]") for i, value in enumerate(counts)]
    if len(values) != rank_size:
        raise ValueError(f"{name} has {len(values)} entries, but the group has {rank_size} ranks")
    return tuple(values)


def check_count(value: object, name: str) -> int:
    """Require a count of rows."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must not be negative, not {value}")
    return int(value)


def check_blocks(x: Array, rank_size: int, call: str) -> int:
    """Require axis 0 to split evenly over the ranks; returns the rows of a block.

    Raises
    ------
    ValueError : it does not.
    """
    if x.ndim == 0:
        raise ValueError(f"{call} splits axis 0, but x has none (0-d array)")
    if x.shape[0] % rank_size:
        raise ValueError(
            f"{call} splits axis 0 in {rank_size} equal blocks, but x has {x.shape[0]} rows"
        )
    return int(x.shape[0]) // rank_size
