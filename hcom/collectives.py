"""The collectives and messages of a group, on numpy arrays.

Every collective goes the same way: check the arguments, find the bound operation of this request
(`hcom.operation`), run it on contiguous arrays. Inputs are never changed unless `out` is the
input itself.
"""

from collections.abc import Sequence

import numpy as np

from hcom.arguments import (
    Array,
    check_array,
    check_blocks,
    check_out,
    check_rank,
    contiguous,
    same_memory,
)
from hcom.data_type import check_reduce, data_type_of
from hcom.errors import NotSupportedError
from hcom.executor.session import Session
from hcom.operation import Binder, Request
from hcom.point_to_point import Message, exchange
from hcom.schedule import Schedule
from hcom.shape_message import SHAPE_BYTES, pack_shape, unpack_shape
from hcom.statistics import Statistics
from hcom.topology import Topology

Algorithm = str | Schedule | None


class Collectives:
    """The operations of a group; `Communicator` adds who its members are."""

    def __init__(
        self, name: str, session: Session, topology: Topology, statistics: Statistics
    ) -> None:
        self._name, self._session, self._topology = name, session, topology
        self._statistics = statistics
        self._binder = Binder(name, session, topology, statistics)

    @property
    def rank(self) -> int:
        """Rank of this process in the group."""
        return self._session.rank

    @property
    def rank_size(self) -> int:
        """Number of members."""
        return len(self._session.ranks)

    # Collectives of one whole buffer

    def all_reduce(
        self,
        x: Array,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array:
        """Reduce x over the ranks, element by element; every rank gets the result.

        Parameters
        ----------
        x : any shape, equal on all ranks.
        op : "sum", "prod", "max", "min", or "avg" (sum divided by the number of ranks).
        out : where the result goes; x itself for in place. A new array by default.
        algorithm : a name, an options form, a Schedule, or "file:PATH"; chosen by size if None.
        async_op : refused for now.

        Raises
        ------
        TypeError, ValueError : wrong arguments; nothing has been sent.
        MismatchError, NotifyTimeoutError, PeerLostError : something between the ranks.

        References
        ----------
        HCCL API, HcclAllReduce.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        check_reduce(kind, op)
        request = Request("all_reduce", kind, op, 0, x.nbytes, x.nbytes, algorithm)
        return self._averaged(self._into(request, x, x.shape, out), op)

    def reduce(
        self,
        x: Array,
        root: int = 0,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array | None:
        """Reduce x over the ranks; the root gets the result, the others None.

        Parameters and errors as `all_reduce`; `out` counts at the root only.
        References: HCCL API, HcclReduce.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        check_reduce(kind, op)
        root = check_rank(root, "root", self.rank_size)
        request = Request("reduce", kind, op, root, x.nbytes, x.nbytes, algorithm)
        if self.rank != root:
            self._binder.bind(request).run(self._session, contiguous(x), None)
            return None
        return self._averaged(self._into(request, x, x.shape, out), op)

    def broadcast(
        self,
        x: Array,
        root: int = 0,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array:
        """Give every rank the root's x.

        Parameters
        ----------
        x : equal shape and type on all ranks; its values count at the root only.
        root : rank in the group.

        Other parameters and errors as `all_reduce`. References: HCCL API, HcclBroadcast.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        root = check_rank(root, "root", self.rank_size)
        request = Request("broadcast", kind, "", root, x.nbytes, x.nbytes, algorithm)
        return self._into(request, x, x.shape, out)

    def barrier(self) -> None:
        """Wait until every rank of the group has come here.

        References: HCCL API, HcclBarrier.
        """
        token = np.zeros(1, np.uint8)
        kind = data_type_of(token)
        request = Request("all_reduce", kind, "max", 0, 1, 1, "mesh(one_shot=True)", "barrier")
        self._binder.bind(request).run(self._session, token, token)

    # Collectives of one block a rank

    def all_gather(
        self,
        x: Array,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array:
        """Join every rank's x on axis 0, in the order of the ranks.

        Parameters
        ----------
        x : shape (n, ...), equal on all ranks; the result is (rank_size * n, ...).

        Other parameters and errors as `all_reduce`. References: HCCL API, HcclAllGather.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        shape = self._joined(x, "all_gather")
        total = x.nbytes * self.rank_size
        request = Request("all_gather", kind, "", 0, total, total, algorithm)
        return self._into(request, x, shape, out)

    def reduce_scatter(
        self,
        x: Array,
        op: str = "sum",
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array:
        """Reduce x over the ranks and give rank r the r-th block of axis 0.

        Parameters
        ----------
        x : shape (rank_size * n, ...), equal on all ranks; the result is (n, ...).

        Other parameters and errors as `all_reduce`. References: HCCL API, HcclReduceScatter.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        check_reduce(kind, op)
        rows = check_blocks(x, self.rank_size, "reduce_scatter")
        request = Request("reduce_scatter", kind, op, 0, x.nbytes, x.nbytes, algorithm)
        return self._averaged(self._into(request, x, (rows, *x.shape[1:]), out), op)

    def all_to_all(
        self,
        x: Array,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array:
        """Send the r-th block of axis 0 to rank r; the result has rank r's block as its r-th.

        Parameters
        ----------
        x : shape (rank_size * n, ...), equal on all ranks, as is the result's. `out` is another
            array than x.

        Other parameters and errors as `all_reduce`. References: HCCL API, HcclAlltoAll.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        check_blocks(x, self.rank_size, "all_to_all")
        if out is not None and same_memory(x, out):
            raise ValueError("all_to_all cannot run in place: out must not be x")
        request = Request("all_to_all", kind, "", 0, x.nbytes, x.nbytes, algorithm)
        return self._into(request, x, x.shape, out)

    def gather(
        self,
        x: Array,
        root: int = 0,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array | None:
        """Join every rank's x on axis 0 at the root; the others get None.

        Parameters
        ----------
        x : shape (n, ...), equal on all ranks; the root's result is (rank_size * n, ...).

        Other parameters and errors as `all_reduce`. HCCL has no gather; torch_npu's has this form.
        """
        self._refuse_async(async_op)
        kind = data_type_of(check_array(x, "x"))
        root = check_rank(root, "root", self.rank_size)
        shape = self._joined(x, "gather")
        total = x.nbytes * self.rank_size
        request = Request("gather", kind, "", root, total, total, algorithm)
        if self.rank != root:
            self._binder.bind(request).run(self._session, contiguous(x), None)
            return None
        return self._into(request, x, shape, out)

    def scatter(
        self,
        x: Array | None,
        root: int = 0,
        *,
        out: Array | None = None,
        algorithm: Algorithm = None,
        async_op: bool = False,
    ) -> Array:
        """Give rank r the r-th block of the root's x.

        Parameters
        ----------
        x : at the root, shape (rank_size * n, ...); None elsewhere: shape and type travel first.

        Other parameters and errors as `all_reduce`. References: HCCL API, HcclScatter.
        """
        self._refuse_async(async_op)
        root = check_rank(root, "root", self.rank_size)
        header = np.zeros(SHAPE_BYTES, np.uint8)
        if self.rank == root:
            source = check_array(x, "x")
            rows = check_blocks(source, self.rank_size, "scatter")
            header = pack_shape((rows, *source.shape[1:]), source.dtype)
        elif x is not None:
            raise TypeError(f"scatter takes x at the root (rank {root}) only; pass None elsewhere")
        shape, dtype = unpack_shape(self.broadcast(header, root))
        like = np.empty(shape, dtype) if x is None else x
        kind = data_type_of(like)
        total = int(np.prod(shape, dtype=np.int64)) * kind.nbytes * self.rank_size
        request = Request("scatter", kind, "", root, total, total, algorithm)
        return self._into(request, like, shape, out)

    # Point to point

    def send(self, x: Array, dst: int, tag: int = 0) -> None:
        """Send x to a rank; returns when its `recv` has taken the data (HCCL's rendezvous).

        Two ranks that both send first wait for each other: use `send_recv` or `batch_send_recv`.
        References: HCCL API, HcclSend.
        """
        self.batch_send_recv([("send", x, dst, tag)])

    def recv(self, out: Array, src: int, tag: int = 0) -> Array:
        """Receive into `out` what rank `src` sends with this tag; returns `out`.

        References: HCCL API, HcclRecv.
        """
        self.batch_send_recv([("recv", out, src, tag)])
        return out

    def send_recv(self, x: Array, dst: int, out: Array, src: int, tag: int = 0) -> Array:
        """Send x to `dst` while receiving into `out` from `src`; returns `out`."""
        self.batch_send_recv([("send", x, dst, tag), ("recv", out, src, tag)])
        return out

    def batch_send_recv(self, messages: Sequence[Message]) -> None:
        """Complete sends and receives together; their order does not matter.

        Parameters
        ----------
        messages : ("send", x, peer, tag) and ("recv", out, peer, tag) tuples. Messages of equal
            peer and tag match in the order of the lists.

        Raises
        ------
        TypeError, ValueError : wrong arguments; nothing has been sent.
        MismatchError : a message has another count or type at its other end.

        References
        ----------
        HCCL API, HcclBatchSendRecv.
        """
        exchange(self._session, self._name, self._topology, self._statistics, messages)

    # What they share

    def _joined(self, x: Array, call: str) -> tuple[int, ...]:
        if x.ndim == 0:
            raise ValueError(f"{call} joins on axis 0, but x has none (0-d array)")
        return (self.rank_size * x.shape[0], *x.shape[1:])

    def _into(self, request: Request, x: Array, shape: Sequence[int], out: Array | None) -> Array:
        """Run a request on x into `out` or a new array of this shape."""
        if out is None:
            out = np.empty(shape, x.dtype)
        else:
            check_out(out, shape, x.dtype, x)
        target = out if out.flags.c_contiguous else np.empty(shape, x.dtype)
        source = target if out is target and same_memory(x, out) else contiguous(x)
        self._binder.bind(request).run(self._session, source, target)
        if target is not out:
            out[...] = target
        return out

    def _averaged(self, total: Array, op: str) -> Array:
        if op == "avg":
            np.divide(total, total.dtype.type(self.rank_size), out=total)
        return total

    @staticmethod
    def _refuse_async(async_op: bool) -> None:
        if async_op:
            raise NotSupportedError("async_op=True is not supported yet: pass async_op=False")
