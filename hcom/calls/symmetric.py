"""Checks of the collectives in which all ranks do the same, with equal counts."""

from hcom.arguments import Array, check_array, check_blocks
from hcom.calls.call import (
    Algorithm,
    Call,
    Place,
    divisor_of,
    joined_shape,
    make_call,
    reduced_kind,
    refuse_in_place,
)
from hcom.data_type import data_type_of
from hcom.operation import Request


def all_reduce(
    place: Place,
    x: Array,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check an all_reduce."""
    kind = reduced_kind(x, op)
    request = Request("all_reduce", kind, op, 0, x.nbytes, x.nbytes, algorithm)
    return make_call(request, x, x.shape, out, divisor_of(op, place))


def all_gather(
    place: Place, x: Array, *, out: Array | None = None, algorithm: Algorithm = None
) -> Call:
    """Check an all_gather."""
    kind = data_type_of(check_array(x, "x"))
    shape = joined_shape(x, place.rank_size, "all_gather")
    total = x.nbytes * place.rank_size
    return make_call(Request("all_gather", kind, "", 0, total, total, algorithm), x, shape, out)


def reduce_scatter(
    place: Place,
    x: Array,
    op: str = "sum",
    *,
    out: Array | None = None,
    algorithm: Algorithm = None,
) -> Call:
    """Check a reduce_scatter."""
    kind = reduced_kind(x, op)
    rows = check_blocks(x, place.rank_size, "reduce_scatter")
    request = Request("reduce_scatter", kind, op, 0, x.nbytes, x.nbytes, algorithm)
    return make_call(request, x, (rows, *x.shape[1:]), out, divisor_of(op, place))


def all_to_all(
    place: Place, x: Array, *, out: Array | None = None, algorithm: Algorithm = None
) -> Call:
    """Check an all_to_all."""
    kind = data_type_of(check_array(x, "x"))
    check_blocks(x, place.rank_size, "all_to_all")
    refuse_in_place(x, out, "all_to_all")
    request = Request("all_to_all", kind, "", 0, x.nbytes, x.nbytes, algorithm)
    return make_call(request, x, x.shape, out)
