"""What each collective asks of its arguments, checked on this rank before anything is sent."""

from collections.abc import Callable

from hcom.calls.call import Algorithm, Call, Counts, Place
from hcom.calls.counted import (
    agreed_matrix,
    all_gather_v,
    all_to_all_vc,
    check_all_to_all_v,
    reduce_scatter_v,
)
from hcom.calls.rooted import broadcast, gather, reduce, scatter
from hcom.calls.symmetric import all_gather, all_reduce, all_to_all, reduce_scatter

# The calls that `bind` knows. scatter and all_to_all_v exchange shapes first: they have no bound
# form.
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

__all__ = [
    "BOUND",
    "Algorithm",
    "Call",
    "Counts",
    "Place",
    "agreed_matrix",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_vc",
    "broadcast",
    "check_all_to_all_v",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_v",
    "scatter",
]
