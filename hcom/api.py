"""The functions of the package: the collectives and messages of the world, or of `group=`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hcom.arguments import Array
from hcom.batch import Message
from hcom.caller import Result
from hcom.calls import Algorithm, Counts
from hcom.communicator import Communicator
from hcom.data_type import data_type_of
from hcom.world import world

Group = Communicator | None


def _of(group: Group) -> Communicator:
    return group or world().group


def all_reduce(
    x: Array,
    op: str = "sum",
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Reduce x over the ranks; every rank gets the result. See `Communicator.all_reduce`."""
    return _of(group).all_reduce(x, op, out=out, algorithm=algorithm, async_op=async_op)


def reduce(
    x: Array,
    root: int = 0,
    op: str = "sum",
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Reduce x over the ranks to the root. See `Communicator.reduce`."""
    return _of(group).reduce(x, root, op, out=out, algorithm=algorithm, async_op=async_op)


def broadcast(
    x: Array,
    root: int = 0,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Give every rank the root's x. See `Communicator.broadcast`."""
    return _of(group).broadcast(x, root, out=out, algorithm=algorithm, async_op=async_op)


def scatter(
    x: Array | None,
    root: int = 0,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Give rank r the r-th block of the root's x. See `Communicator.scatter`."""
    return _of(group).scatter(x, root, out=out, algorithm=algorithm, async_op=async_op)


def gather(
    x: Array,
    root: int = 0,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Join every rank's x at the root. See `Communicator.gather`."""
    return _of(group).gather(x, root, out=out, algorithm=algorithm, async_op=async_op)


def all_gather(
    x: Array,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Join every rank's x on axis 0. See `Communicator.all_gather`."""
    return _of(group).all_gather(x, out=out, algorithm=algorithm, async_op=async_op)


def reduce_scatter(
    x: Array,
    op: str = "sum",
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Reduce x, and keep this rank's block of axis 0. See `Communicator.reduce_scatter`."""
    return _of(group).reduce_scatter(x, op, out=out, algorithm=algorithm, async_op=async_op)


def all_to_all(
    x: Array,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Send block r of axis 0 to rank r. See `Communicator.all_to_all`."""
    return _of(group).all_to_all(x, out=out, algorithm=algorithm, async_op=async_op)


def barrier(*, group: Group = None) -> None:
    """Wait until every rank has come here. See `Communicator.barrier`."""
    _of(group).barrier()


def all_gather_v(
    x: Array,
    counts: Counts,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Join arrays of different lengths. See `Communicator.all_gather_v`."""
    return _of(group).all_gather_v(x, counts, out=out, algorithm=algorithm, async_op=async_op)


def reduce_scatter_v(
    x: Array,
    counts: Counts,
    op: str = "sum",
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Reduce x, and keep this rank's rows. See `Communicator.reduce_scatter_v`."""
    return _of(group).reduce_scatter_v(
        x, counts, op, out=out, algorithm=algorithm, async_op=async_op
    )


def all_to_all_v(
    x: Array,
    send_counts: Counts,
    recv_counts: Counts,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """Send different numbers of rows to each rank. See `Communicator.all_to_all_v`."""
    return _of(group).all_to_all_v(
        x, send_counts, recv_counts, out=out, algorithm=algorithm, async_op=async_op
    )


def all_to_all_vc(
    x: Array,
    matrix: Sequence[Counts] | Array,
    *,
    out: Array | None = None,
    group: Group = None,
    algorithm: Algorithm = None,
    async_op: bool = False,
) -> Result:
    """`all_to_all_v` where all ranks know all counts. See `Communicator.all_to_all_vc`."""
    return _of(group).all_to_all_vc(x, matrix, out=out, algorithm=algorithm, async_op=async_op)


def send(
    x: Array, dst: int, tag: int = 0, *, group: Group = None, async_op: bool = False
) -> Result:
    """Send x to a rank that receives it. See `Communicator.send`."""
    return _of(group).send(x, dst, tag, async_op=async_op)


def recv(
    out: Array, src: int, tag: int = 0, *, group: Group = None, async_op: bool = False
) -> Result:
    """Receive from a rank into `out`. See `Communicator.recv`."""
    return _of(group).recv(out, src, tag, async_op=async_op)


def send_recv(
    x: Array,
    dst: int,
    out: Array,
    src: int,
    tag: int = 0,
    *,
    group: Group = None,
    async_op: bool = False,
) -> Result:
    """Send and receive at once. See `Communicator.send_recv`."""
    return _of(group).send_recv(x, dst, out, src, tag, async_op=async_op)


def batch_send_recv(
    messages: Sequence[Message], *, group: Group = None, async_op: bool = False
) -> Result:
    """Complete many sends and receives together. See `Communicator.batch_send_recv`."""
    return _of(group).batch_send_recv(messages, async_op=async_op)


def bind(
    name: str, x: Array, *args: Any, group: Group = None, **options: Any
) -> Callable[[], Result]:
    """Check and bind a collective once, to run it often. See `Communicator.bind`."""
    return _of(group).bind(name, x, *args, **options)


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """Allocate an array in registered memory, which the other ranks map; a local call.

    Parameters
    ----------
    shape : of the array; its content is undefined.
    dtype : a type that travels.

    Raises
    ------
    TypeError, ValueError : a type that does not travel, or a negative dimension.
    """
    kind = data_type_of(np.empty(0, dtype)).numpy
    sides = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if any(side < 0 for side in sides):
        raise ValueError(f"shape must have no negative dimension, not {sides}")
    return world().runtime.host.arena.empty(tuple(int(side) for side in sides), kind)
