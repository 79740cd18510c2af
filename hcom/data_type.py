"""Data types and reduce operations, with HCCL's names and numbers (HcclDataType, HcclReduceOp)."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DataType:
    """A type that travels: HCCL's name and number, and the numpy type that stands for it."""

    name: str
    number: int
    numpy: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize


# bool is no HCCL type; it travels as uint8 and keeps its values (sum is "or", prod is "and").
DATA_TYPES = tuple(
    DataType(name, number, np.dtype(kind))
    for name, number, kind in (
        ("int8", 0, np.int8),
        ("int16", 1, np.int16),
        ("int32", 2, np.int32),
        ("fp16", 3, np.float16),
        ("fp32", 4, np.float32),
        ("int64", 5, np.int64),
        ("uint64", 6, np.uint64),
        ("uint8", 7, np.uint8),
        ("uint16", 8, np.uint16),
        ("uint32", 9, np.uint32),
        ("fp64", 10, np.float64),
        ("bfp16", 11, ml_dtypes.bfloat16),
        ("fp8e4m3", 15, ml_dtypes.float8_e4m3fn),
        ("fp8e5m2", 16, ml_dtypes.float8_e5m2),
        ("bool", 128, np.bool_),
    )
)
_BY_NUMPY = {kind.numpy: kind for kind in DATA_TYPES}

# avg is sum with a division by the number of ranks at the end.
REDUCE_OPS = ("sum", "prod", "max", "min", "avg")
# fp8 travels but is never added: its sums need a wider type, chosen by the caller.
_NOT_REDUCED = ("fp8e4m3", "fp8e5m2")


def data_type_of(x: np.ndarray) -> DataType:
    """Find the data type of an array.

    Raises
    ------
    TypeError : the array's type does not travel.
    """
    try:
        return _BY_NUMPY[x.dtype]
    except KeyError:
        names = ", ".join(str(kind.numpy) for kind in DATA_TYPES)
        raise TypeError(f"arrays of type {x.dtype} do not travel; these do: {names}") from None


def check_reduce(kind: DataType, op: str) -> None:
    """Refuse a reduction that is not defined.

    Raises
    ------
    ValueError : unknown operation, or one that the type does not have.
    """
    if op not in REDUCE_OPS:
        raise ValueError(f"op must be one of {', '.join(REDUCE_OPS)}, not {op!r}")
    if kind.name in _NOT_REDUCED:
        raise ValueError(f"{kind.name} arrays are moved but not reduced: convert to fp16 or fp32")
    if op == "avg" and kind.numpy.kind in "iub":
        raise ValueError(f"op='avg' needs a floating type, not {kind.name}: use 'sum' and divide")
