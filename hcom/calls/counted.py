"""Checks of the collectives whose counts differ between ranks (the `v` forms)."""

from collections.abc import Sequence

from hcom.arguments import Array, check_array, check_counts, check_out
from hcom.calls.call import (
    Algorithm,
    Call,
    Counts,
    Place,
    block_bytes,
    check_rows,
    divisor_of,
    joined_shape,
    make_call,
    reduced_kind,
    refuse_in_place,
)
from hcom.data_type import data_type_of
from hcom.errors import MismatchError
from hcom.operation import Request


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
    joined_shape(x, place.rank_size, "all_gather_v")
    if x.shape[0] != rows[place.rank]:
        raise ValueError(
            f"counts[{place.rank}] is {rows[place.rank]}, but x of rank {place.rank} has "
            f"{x.shape[0]} rows"
        )
    blocks = block_bytes(x, rows)
    request = Request("all_gather", kind, "", 0, blocks, sum(blocks), algorithm, "v")
    return make_call(request, x, (sum(rows), *x.shape[1:]), out)


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
    kind = reduced_kind(x, op)
    rows = check_counts(counts, place.rank_size, "counts")
    check_rows(x, rows, "counts")
    blocks = block_bytes(x, rows)
    request = Request("reduce_scatter", kind, op, 0, blocks, sum(blocks), algorithm, "v")
    shape = (rows[place.rank], *x.shape[1:])
    return make_call(request, x, shape, out, divisor_of(op, place))


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
    check_rows(x, rows[place.rank], f"matrix[{place.rank}]")
    refuse_in_place(x, out, "all_to_all_vc")
    blocks = tuple(block_bytes(x, row) for row in rows)
    total = sum(map(sum, blocks))
    request = Request("all_to_all", kind, "", 0, blocks, total, algorithm, "v")
    received = sum(row[place.rank] for row in rows)
    return make_call(request, x, (received, *x.shape[1:]), out)


def check_all_to_all_v(
    place: Place, x: Array, sends: Sequence[int], receives: Sequence[int], out: Array | None
) -> None:
    """Check what one rank can check of an all_to_all_v before the counts are exchanged."""
    data_type_of(x)
    check_rows(x, sends, "send_counts")
    refuse_in_place(x, out, "all_to_all_v")
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
