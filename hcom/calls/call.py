"""A checked call of a collective: what it asks of its arguments and the request made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hcom.arguments import Array, check_array, check_out, same_memory
from hcom.data_type import DataType, check_reduce, data_type_of
from hcom.operation import Request
from hcom.schedule import Schedule

Algorithm = str | Schedule | None
Counts = Sequence[int] | Array


class Place(NamedTuple):
    """A rank in its group."""

    rank: int
    rank_size: int


@dataclass(frozen=True)
class Call:
    """A checked call.

    Attributes
    ----------
    x : what this rank brings, or None.
    shape : of the result here; None where this rank has none.
    out : where the result goes; None for a new array.
    divisor : the result is divided by it ("avg").
    """

    request: Request
    x: Array | None
    shape: tuple[int, ...] | None
    out: Array | None
    divisor: int = 1

    def result(self) -> Array | None:
        """Return `out`, or a new array, or None where this rank has no result."""
        if self.shape is None or self.out is not None:
            return self.out
        return np.empty(self.shape, self.request.kind.numpy)


def make_call(
    request: Request,
    x: Array | None,
    shape: tuple[int, ...] | None,
    out: Array | None,
    divisor: int = 1,
) -> Call:
    """Check the output and put a call together."""
    if shape is None:
        out = None
    elif out is not None:
        check_out(out, shape, request.kind.numpy, x)
    return Call(request, x, shape, out, divisor)


def reduced_kind(x: Array, op: str) -> DataType:
    """Check what is to be reduced and how; give its type."""
    kind = data_type_of(check_array(x, "x"))
    check_reduce(kind, op)
    return kind


def joined_shape(x: Array, size: int, call: str) -> tuple[int, ...]:
    """Give the shape of all ranks' arrays joined on axis 0."""
    if x.ndim == 0:
        raise ValueError(f"{call} joins on axis 0, but x has none (0-d array)")
    return (size * x.shape[0], *x.shape[1:])


def divisor_of(op: str, place: Place) -> int:
    """Tell what the sum is divided by."""
    return place.rank_size if op == "avg" else 1


def refuse_in_place(x: Array, out: Array | None, call: str) -> None:
    """Refuse an output that is the input itself."""
    if out is not None and same_memory(x, out):
        raise ValueError(f"{call} cannot run in place: out must not be x")


def block_bytes(x: Array, rows: Sequence[int]) -> tuple[int, ...]:
    """Give the bytes of blocks of so many rows."""
    width = x.dtype.itemsize * int(np.prod(x.shape[1:], dtype=np.int64))
    return tuple(count * width for count in rows)


def check_rows(x: Array, rows: Sequence[int], name: str) -> None:
    """Require x to have as many rows as the counts say."""
    if x.ndim == 0 or x.shape[0] != sum(rows):
        have = "no rows (0-d array)" if x.ndim == 0 else f"{x.shape[0]} rows"
        raise ValueError(f"{name} says {sum(rows)} rows ({list(rows)}), but x has {have}")
