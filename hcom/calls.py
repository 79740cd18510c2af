"""What each collective asks of its arguments, and the request it makes of them.

A function here checks a call on this rank alone: nothing has been sent when it raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hcom.arguments import (
    Array,
    check_array,
    check_blocks,
    check_counts,
    check_out,
    check_rank,
    same_memory,
)
from hcom.data_type import DataType, check_reduce, data_type_of
from hcom.errors import MismatchError
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


def _call(
    request: Request,
    x: Array | None,
    shape: tuple[int, ...] | None,
    out: Array | None,
    divisor: int = 1,
) -> Call:
    if shape is None:
        out = None
    elif out is not None:
        check_out(out, shape, request.kind.numpy, x)
    return Call(request, x, shape, out, divisor)


def _reduced(x: Array, op: str) -> DataType:
    kind = data_type_of(check_array(x, "x"))
    check_reduce(kind, op)
    return kind


def _joined(x: Array, size: int, call: str) -> tuple[int, ...]:
    if x.ndim == 0:
        raise ValueError(f"{call} joins on axis 0, but x has none (0-d array)")
    return (size * x.shape[0], *x.shape[1:])


def _divisor(op: str, place: Place) -> int:
    return place.rank_size if op == "avg" else 1


def all_reduce(
    place: Place,
    x: Array,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check an all_reduce."""
    kind = _reduced(x, op)
    request = Request("all_reduce", kind, op, 0, x.nbytes, x.nbytes, algorithm)
    return _call(request, x, x.shape, out, _divisor(op, place))


def reduce(
    place: Place,
    x: Array,
    root: int = 0,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a reduce."""
    kind = _reduced(x, op)
    root = check_rank(root, "root", place.rank_size)
    request = Request("reduce", kind, op, root, x.nbytes, x.nbytes, algorithm)
    shape = x.shape if place.rank == root else None
    return _call(request, x, shape, out, _divisor(op, place))


def broadcast(
    place: Place,
    x: Array,
    root: int = 0,
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a broadcast."""
    kind = data_type_of(check_array(x, "x"))
    root = check_rank(root, "root", place.rank_size)
    request = Request("broadcast", kind, "", root, x.nbytes, x.nbytes, algorithm)
    return _call(request, x, x.shape, out)


def all_gather(
    place: Place, x: Array, *, out: Array | None = None, algorithm: Algorithm = None
) -> Call:
    """Check an all_gather."""
    kind = data_type_of(check_array(x, "x"))
    shape = _joined(x, place.rank_size, "all_gather")
    total = x.nbytes * place.rank_size
    return _call(Request("all_gather", kind, "", 0, total, total, algorithm), x, shape, out)


def all_gather_v(
    place: Place,
    x: Array,
    counts: Counts,
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check an all_gather_v."""
    kind = data_type_of(check_array(x, "x"))
    rows = check_counts(counts, place.rank_size, "counts")
    _joined(x, place.rank_size, "all_gather_v")
    if x.shape[0] != rows[place.rank]:
        raise ValueError(
            f"counts[{place.rank}] is {rows[place.rank]}, but x of rank {place.rank} has "
            f"{x.shape[0]} rows"
        )
    blocks = _block_bytes(x, rows)
    request = Request("all_gather", kind, "", 0, blocks, sum(blocks), algorithm, "v")
    return _call(request, x, (sum(rows), *x.shape[1:]), out)


def reduce_scatter(
    place: Place,
    x: Array,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a reduce_scatter."""
    kind = _reduced(x, op)
    rows = check_blocks(x, place.rank_size, "reduce_scatter")
    request = Request("reduce_scatter", kind, op, 0, x.nbytes, x.nbytes, algorithm)
    return _call(request, x, (rows, *x.shape[1:]), out, _divisor(op, place))


def reduce_scatter_v(
    place: Place,
    x: Array,
    counts: Counts,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a reduce_scatter_v."""
    kind = _reduced(x, op)
    rows = check_counts(counts, place.rank_size, "counts")
    _check_rows(x, rows, "counts")
    blocks = _block_bytes(x, rows)
    request = Request("reduce_scatter", kind, op, 0, blocks, sum(blocks), algorithm, "v")
    shape = (rows[place.rank], *x.shape[1:])
    return _call(request, x, shape, out, _divisor(op, place))


def gather(
    place: Place,
    x: Array,
    root: int = 0,
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a gather."""
    kind = data_type_of(check_array(x, "x"))
    root = check_rank(root, "root", place.rank_size)
    shape = _joined(x, place.rank_size, "gather")
    total = x.nbytes * place.rank_size
    request = Request("gather", kind, "", root, total, total, algorithm)
    return _call(request, x, shape if place.rank == root else None, out)


def scatter(
    place: Place,
    x: Array | None,
    root: int,
    block: tuple[tuple[int, ...], np.dtype],
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a scatter whose block's shape and type have come from the root."""
    shape, dtype = block
    kind = data_type_of(np.empty(0, dtype))
    total = int(np.prod(shape, dtype=np.int64)) * kind.nbytes * place.rank_size
    return _call(Request("scatter", kind, "", root, total, total, algorithm), x, shape, out)


def all_to_all(
    place: Place, x: Array, *, out: Array | None = None, algorithm: Algorithm = None
) -> Call:
    """Check an all_to_all."""
    kind = data_type_of(check_array(x, "x"))
    check_blocks(x, place.rank_size, "all_to_all")
    _refuse_in_place(x, out, "all_to_all")
    request = Request("all_to_all", kind, "", 0, x.nbytes, x.nbytes, algorithm)
    return _call(request, x, x.shape, out)


def all_to_all_vc(
    place: Place,
    x: Array,
    matrix: Sequence[Counts] | Array,
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check an all_to_all_vc: `matrix[i][j]` rows go from rank i to rank j."""
    kind = data_type_of(check_array(x, "x"))
    if len(matrix) != place.rank_size:
        raise ValueError(f"matrix has {len(matrix)} rows, but the group has {place.rank_size}")
    rows = [check_counts(row, place.rank_size, f"matrix[{i}]") for i, row in enumerate(matrix)]
    _check_rows(x, rows[place.rank], f"matrix[{place.rank}]")
    _refuse_in_place(x, out, "all_to_all_vc")
    blocks = tuple(_block_bytes(x, row) for row in rows)
    total = sum(map(sum, blocks))
    request = Request("all_to_all", kind, "", 0, blocks, total, algorithm, "v")
    received = sum(row[place.rank] for row in rows)
    return _call(request, x, (received, *x.shape[1:]), out)


def check_all_to_all_v(
    place: Place, x: Array, sends: Sequence[int], receives: Sequence[int], out: Array | None
) -> None:
    """Check what one rank can check of an all_to_all_v before the counts are exchanged."""
    data_type_of(x)
    _check_rows(x, sends, "send_counts")
    _refuse_in_place(x, out, "all_to_all_v")
    if sends[place.rank] != receives[place.rank]:
        raise ValueError(
            f"rank {place.rank} sends itself {sends[place.rank]} rows but receives "
            f"{receives[place.rank]}: send_counts and recv_counts must agree there"
        )
    if out is not None:
        check_out(out, (sum(receives), *x.shape[1:]), x.dtype, x)


def agreed_matrix(rows: Sequence[Sequence[int]], ranks: Sequence[int]) -> list[Sequence[int]]:
    """Join everybody's send and receive counts to a matrix.

    Raises
    ------
    MismatchError : a rank sends another number of rows than the other one receives.
    """
    size = len(rows)
    unlike = [
        f"  rank {ranks[i]} sends {rows[i][j]} rows to rank {ranks[j]}, "
        f"which receives {rows[j][size + i]}"
        for i in range(size)
        for j in range(size)
        if rows[i][j] != rows[j][size + i]
    ]
    if unlike:
        raise MismatchError("EI0005: all_to_all_v counts differ:\n" + "\n".join(unlike))
    return [row[:size] for row in rows]


def _refuse_in_place(x: Array, out: Array | None, call: str) -> None:
    if out is not None and same_memory(x, out):
        raise ValueError(f"{call} cannot run in place: out must not be x")


def _block_bytes(x: Array, rows: Sequence[int]) -> tuple[int, ...]:
    width = x.dtype.itemsize * int(np.prod(x.shape[1:], dtype=np.int64))
    return tuple(count * width for count in rows)


def _check_rows(x: Array, rows: Sequence[int], name: str) -> None:
    if x.ndim == 0 or x.shape[0] != sum(rows):
        have = "no rows (0-d array)" if x.ndim == 0 else f"{x.shape[0]} rows"
        raise ValueError(f"{name} says {sum(rows)} rows ({list(rows)}), but x has {have}")


# The calls that `bind` knows. scatter and all_to_all_v first exchange shapes: they have no
# bound form.
BOUND: dict[str, Callable[..., Call]] = {
    function.__name__: function
    for function in (
        all_reduce,
        reduce,
        broadcast,
        all_gather,
        all_gather_v,
        reduce_scatter,
        reduce_scatter_v,
        gather,
        all_to_all,
        all_to_all_vc,
    )
}
