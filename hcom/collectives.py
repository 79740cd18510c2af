"""The collectives of a group, on numpy arrays.

Every collective goes the same way: `hcom.calls` checks the arguments and makes a request of them,
`hcom.operation` finds the bound operation of that request, and it runs on contiguous arrays, on
the caller's thread or (`async_op=True`) on the communication thread. Inputs are never changed
unless `out` is the input itself.

Every collective takes these, and raises these:

out : where the result goes, of its shape and type; x itself for in place where the shapes agree.
    A new array by default.
algorithm : a name, an options form like "hierarchical(intra_group_size=8)", a Schedule, or
    "file:PATH" with a schedule's text form; chosen by size if None.
async_op : return a `Work` at once, whose `wait` returns the result.
TypeError, ValueError : wrong arguments; nothing has been sent.
MismatchError, NotifyTimeoutError, PeerLostError : something is wrong between the ranks.
"""

from collections.abc import Sequence

import numpy as np

from hcom import calls
from hcom.arguments import Array, check_array, check_counts
from hcom.caller import Caller, Result
from hcom.calls import Algorithm, Call, Counts
from hcom.data_type import data_type_of
from hcom.operation import Request


class Collectives(Caller):
    """The collectives of a group in which all ranks do the same."""

    def all_reduce(
        self,
        x: Array,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Reduce x over the ranks, element by element; every rank gets the result.

        Parameters
        ----------
        x : any shape, equal on all ranks.
        op : "sum", "prod", "max", "min", or "avg" (sum divided by the number of ranks).

        Others and errors: see the module. Source: HCCL API, HcclAllReduce.
        """
        return self._call(calls.all_reduce, x, (op,), out, algorithm, async_op)

    def barrier(self) -> None:
        """Wait until every rank of the group has come here. Source: HCCL API, HcclBarrier."""
        token = np.zeros(1, np.uint8)
        kind = data_type_of(token)
        request = Request("all_reduce", kind, "max", 0, 1, 1, "mesh(one_shot=True)", "barrier")
        self._do(Call(request, token, token.shape, token), False)

    def all_gather(
        self,
        x: Array,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Join every rank's x on axis 0, in the order of the ranks.

        Parameters
        ----------
        x : shape (n, ...), equal on all ranks; the result is (rank_size * n, ...).

        Others and errors: see the module. Source: HCCL API, HcclAllGather.
        """
        return self._call(calls.all_gather, x, (), out, algorithm, async_op)

    def all_gather_v(
        self,
        x: Array,
        counts: Counts,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Join arrays of different lengths on axis 0, in the order of the ranks.

        Parameters
        ----------
        x : shape (counts[rank], ...); the result is (sum(counts), ...).
        counts : rows of every rank, equal on all ranks.

        Others and errors: see the module. Source: HCCL API, HcclAllGatherV.
        """
        call = calls.all_gather_v(self._place, x, counts, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def reduce_scatter(
        self,
        x: Array,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Reduce x over the ranks and give rank r the r-th block of axis 0.

        Parameters
        ----------
        x : shape (rank_size * n, ...), equal on all ranks; the result is (n, ...).
        op : as `all_reduce`.

        Others and errors: see the module. Source: HCCL API, HcclReduceScatter.
        """
        return self._call(calls.reduce_scatter, x, (op,), out, algorithm, async_op)

    def reduce_scatter_v(
        self,
        x: Array,
        counts: Counts,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Reduce x over the ranks and give rank r its `counts[r]` rows.

        Parameters
        ----------
        x : shape (sum(counts), ...); the result is (counts[rank], ...).
        counts : rows of every rank, equal on all ranks.
        op : as `all_reduce`.

        Others and errors: see the module. Source: HCCL API, HcclReduceScatterV.
        """
        call = calls.reduce_scatter_v(self._place, x, counts, op, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def all_to_all(
        self,
        x: Array,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Send the r-th block of axis 0 to rank r; the result's r-th block is from rank r.

        Parameters
        ----------
        x : shape (rank_size * n, ...), equal on all ranks, as is the result's. Not in place.

        Others and errors: see the module. Source: HCCL API, HcclAlltoAll.
        """
        return self._call(calls.all_to_all, x, (), out, algorithm, async_op)

    def all_to_all_v(
        self,
        x: Array,
        send_counts: Counts,
        recv_counts: Counts,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Send `send_counts[r]` rows to each rank r, and receive `recv_counts[r]` from it.

        Parameters
        ----------
        x : shape (sum(send_counts), ...); the result is (sum(recv_counts), ...). Not in place.
        send_counts, recv_counts : rows; what a rank sends must be what the other receives. The
            counts are exchanged and compared first, in a call that is not asynchronous.

        Raises
        ------
        MismatchError : counts of two ranks differ; on every rank, and the group stays usable.

        Others and errors: see the module. Source: HCCL API, HcclAlltoAllV.
        """
        sends = check_counts(send_counts, self.rank_size, "send_counts")
        receives = check_counts(recv_counts, self.rank_size, "recv_counts")
        calls.check_all_to_all_v(self._place, check_array(x, "x"), sends, receives, out)
        rows = self._numbers([*sends, *receives], "all_to_all_v counts")
        matrix = calls.agreed_matrix(rows, self._session.ranks)
        return self.all_to_all_vc(x, matrix, out=out, algorithm=algorithm, async_op=async_op)

    def all_to_all_vc(
        self,
        x: Array,
        matrix: Sequence[Counts] | Array,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Send `matrix[rank][r]` rows to each rank r: `all_to_all_v` where all know all counts.

        Parameters
        ----------
        x : shape (sum(matrix[rank]), ...); the result has the rows of column `rank`. Not in place.
        matrix : rows from each rank (row) to each rank (column), equal on all ranks.

        Others and errors: see the module. Source: HCCL API, HcclAlltoAllVC.
        """
        call = calls.all_to_all_vc(self._place, x, matrix, out=out, algorithm=algorithm)
        return self._do(call, async_op)
