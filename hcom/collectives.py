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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hcom import calls
from hcom.arguments import (
    Array,
    check_array,
    check_blocks,
    check_counts,
    check_rank,
    contiguous,
    same_memory,
)
from hcom.calls import Algorithm, Call, Counts, Place
from hcom.data_type import data_type_of
from hcom.executor.session import Session
from hcom.operation import Binder, Request
from hcom.point_to_point import Message, Messenger
from hcom.runtime import Runtime
from hcom.shape_message import SHAPE_BYTES, pack_shape, unpack_shape
from hcom.topology import Topology

Result = Any  # the array (None where this rank has no result); a Work with async_op=True


class Collectives:
    """The operations of a group; `Communicator` adds who its members are."""

    def __init__(self, name: str, session: Session, topology: Topology, runtime: Runtime) -> None:
        self._name, self._session, self._topology = name, session, topology
        self._runtime = runtime
        self._place = Place(session.rank, len(session.ranks))
        self._binder = Binder(name, session, topology, runtime.statistics)
        self._messenger = Messenger(name, session, topology, runtime)

    @property
    def rank(self) -> int:
        """Rank of this process in the group."""
        return self._place.rank

    @property
    def rank_size(self) -> int:
        """Number of members."""
        return self._place.rank_size

    # Of one whole buffer

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
        call = calls.all_reduce(self._place, x, op, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def reduce(
        self,
        x: Array,
        root: int = 0,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Reduce x over the ranks; the root gets the result, the others None.

        Parameters
        ----------
        x, op : as `all_reduce`; `out` counts at the root only.
        root : rank in the group.

        Others and errors: see the module. Source: HCCL API, HcclReduce.
        """
        call = calls.reduce(self._place, x, root, op, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def broadcast(
        self,
        x: Array,
        root: int = 0,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Give every rank the root's x.

        Parameters
        ----------
        x : equal shape and type on all ranks; its values count at the root only.
        root : rank in the group.

        Others and errors: see the module. Source: HCCL API, HcclBroadcast.
        """
        call = calls.broadcast(self._place, x, root, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def barrier(self) -> None:
        """Wait until every rank of the group has come here. Source: HCCL API, HcclBarrier."""
        token = np.zeros(1, np.uint8)
        kind = data_type_of(token)
        request = Request("all_reduce", kind, "max", 0, 1, 1, "mesh(one_shot=True)", "barrier")
        self._do(Call(request, token, token.shape, token), False)

    # Of one block a rank

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
        call = calls.all_gather(self._place, x, out=out, algorithm=algorithm)
        return self._do(call, async_op)

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
        call = calls.reduce_scatter(self._place, x, op, out=out, algorithm=algorithm)
        return self._do(call, async_op)

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

    def gather(
        self,
        x: Array,
        root: int = 0,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Join every rank's x on axis 0 at the root; the others get None.

        Parameters
        ----------
        x : shape (n, ...), equal on all ranks; the root's result is (rank_size * n, ...).
        root : rank in the group.

        Others and errors: see the module. HCCL has no gather; this is torch_npu's.
        """
        call = calls.gather(self._place, x, root, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def scatter(
        self,
        x: Array | None,
        root: int = 0,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Result:
        """Give rank r the r-th block of the root's x.

        Parameters
        ----------
        x : at the root, shape (rank_size * n, ...); None elsewhere. The block's shape and type
            travel first, in a call that is not asynchronous.
        root : rank in the group.

        Others and errors: see the module. Source: HCCL API, HcclScatter.
        """
        block = self._scattered(x, check_rank(root, "root", self.rank_size))
        call = calls.scatter(self._place, x, root, block, out=out, algorithm=algorithm)
        return self._do(call, async_op)

    def _scattered(self, x: Array | None, root: int) -> tuple[tuple[int, ...], np.dtype]:
        """Learn the shape and type of a block from the root."""
        header = np.zeros(SHAPE_BYTES, np.uint8)
        if self.rank == root:
            source = check_array(x, "x")
            rows = check_blocks(source, self.rank_size, "scatter")
            header = pack_shape((rows, *source.shape[1:]), source.dtype)
        elif x is not None:
            raise TypeError(f"scatter takes x at the root (rank {root}) only; pass None elsewhere")
        return unpack_shape(self.broadcast(header, root))

    # Of one block a pair of ranks

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
        call = calls.all_to_all(self._place, x, out=out, algorithm=algorithm)
        return self._do(call, async_op)

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

    # Messages

    def send(self, x: Array, dst: int, tag: int = 0, *, async_op: bool = False) -> Result:
        """Send x to a rank; returns when its `recv` has taken the data (HCCL's rendezvous).

        Two ranks that both send first wait for each other: use `send_recv`, `batch_send_recv`
        or `async_op=True`. Source: HCCL API, HcclSend.
        """
        return self._messenger.exchange([("send", x, dst, tag)], None, async_op)

    def recv(self, out: Array, src: int, tag: int = 0, *, async_op: bool = False) -> Result:
        """Receive into `out` what rank `src` sends with this tag; returns `out`.

        Source: HCCL API, HcclRecv.
        """
        return self._messenger.exchange([("recv", out, src, tag)], out, async_op)

    def send_recv(
        self, x: Array, dst: int, out: Array, src: int, tag: int = 0, *, async_op: bool = False
    ) -> Result:
        """Send x to `dst` while receiving into `out` from `src`; returns `out`."""
        messages = [("send", x, dst, tag), ("recv", out, src, tag)]
        return self._messenger.exchange(messages, out, async_op)

    def batch_send_recv(self, messages: Sequence[Message], *, async_op: bool = False) -> Result:
        """Complete sends and receives together; their order does not matter.

        Parameters
        ----------
        messages : ("send", x, peer, tag) and ("recv", out, peer, tag) tuples. Messages of equal
            peer and tag match in the order of the lists and of the calls.

        Raises
        ------
        TypeError, ValueError : wrong arguments; nothing has been sent.
        MismatchError : a message has another count or type at its other end.

        Source: HCCL API, HcclBatchSendRecv.
        """
        return self._messenger.exchange(messages, None, async_op)

    # Bound calls

    def bind(self, name: str, x: Array, *args: Any, **options: Any) -> Callable[[], Result]:
        """Check and bind a collective once; calling the result runs it again on the same arrays.

        Parameters
        ----------
        name : of a collective, not scatter or all_to_all_v.
        x, args, options : as for the collective itself; without `out` every call returns one and
            the same array.
        """
        if name not in calls.BOUND:
            raise ValueError(f"bind knows {', '.join(calls.BOUND)}, not {name!r}")
        call = calls.BOUND[name](self._place, x, *args, **options)
        out = call.result()
        self._binder.bind(call.request)
        return lambda: self._run(call, out, False)

    # What they share

    def _do(self, call: Call, async_op: bool) -> Result:
        return self._run(call, call.result(), async_op)

    def _run(self, call: Call, out: Array | None, async_op: bool) -> Result:
        """Run a call into `out`, here or on the communication thread."""
        operation = self._binder.bind(call.request)
        target = None if out is None else out
        if target is not None and not target.flags.c_contiguous:
            target = np.empty(target.shape, target.dtype)
        in_place = call.x is not None and target is out is not None and same_memory(call.x, out)
        source = target if in_place or call.x is None else contiguous(call.x)
        engine = self._runtime.engine
        if not async_op and not engine.busy(self._session):
            operation.run(self._session, source, target)
            return _deliver(call, target, out)
        self._session.refuse_if_broken()
        work = operation.start(self._session, source, target, lambda: _deliver(call, target, out))
        engine.submit(work, self._session)
        return work if async_op else work.wait()

    def _numbers(self, values: Sequence[int], detail: str) -> list[list[int]]:
        """Exchange a few integers; every member gets all rows."""
        mine = np.array([values], np.int64)
        total = mine.nbytes * self.rank_size
        request = Request("all_gather", data_type_of(mine), "", 0, total, total, "mesh", detail)
        gathered = self._do(Call(request, mine, (self.rank_size, len(values)), None), False)
        rows: list[list[int]] = gathered.tolist()
        return rows


def _deliver(call: Call, target: Array | None, out: Array | None) -> Array | None:
    """Finish a call's result: divide an average, fill an output that is not contiguous."""
    if target is None or out is None:
        return None
    if call.divisor != 1:
        np.divide(target, target.dtype.type(call.divisor), out=target)
    if target is not out:
        out[...] = target
    return out
