"""The collectives of a group that have a root; arguments and errors as in `hcom.collectives`."""

import numpy as np

from hcom import calls
from hcom.arguments import Array, check_array, check_blocks, check_rank
from hcom.caller import Caller, Result
from hcom.calls import Algorithm
from hcom.shape_message import SHAPE_BYTES, pack_shape, unpack_shape


class Rooted(Caller):
    """The collectives in which one rank, the root, gives or gets what the others do not."""

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

        Others and errors: see `hcom.collectives`. Source: HCCL API, HcclReduce.
        """
        return self._call(calls.reduce, x, (root, op), out, algorithm, async_op)

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

        Others and errors: see `hcom.collectives`. Source: HCCL API, HcclBroadcast.
        """
        return self._call(calls.broadcast, x, (root,), out, algorithm, async_op)

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

        Others and errors: see `hcom.collectives`. HCCL has no gather; this is torch_npu's.
        """
        return self._call(calls.gather, x, (root,), out, algorithm, async_op)

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

        Others and errors: see `hcom.collectives`. Source: HCCL API, HcclScatter.
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
