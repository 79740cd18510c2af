"""The cost model: what a schedule takes on a topology, in seconds and in bytes per link class.

Transfers of one round between the same two ranks are one message. A rank's messages of one round
leave together when it enters the round, each busy for `alpha + bytes * beta_eff`; a rank's round
ends when its sends have left and its receives are applied: all have come, and those that reduce
have taken `bytes * gamma` one after another. A `pair` link is an own link per two ranks; on a
`port` (one a rank and direction) messages share equally: beta_eff is beta times the larger number
of messages that leave the sender's or enter the receiver's port in this round. Only data orders
ranks; there is no barrier between rounds. Empty chunks send nothing; local moves take no link.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hcom.schedule.layout import Layout
from hcom.schedule.moves import Tracer
from hcom.schedule.value import IntArray, Schedule
from hcom.topology import Topology

FloatArray = npt.NDArray[np.float64]
LOCAL = -1  # as a level: source and destination are one rank


class Messages(NamedTuple):
    """The messages of one round, in (src, dst) order.

    `duration` is the time from the sender's entry into the round to the arrival, s; `apply` the
    time the receiver reduces, s; `level` the index in `Topology.links`, or LOCAL (no message).
    """

    src: IntArray
    dst: IntArray
    nbytes: IntArray
    duration: FloatArray
    apply: FloatArray
    level: IntArray


class Step(NamedTuple):
    """One message of the critical path: in `round`, from `start` to `end` (s).

    `rank` is who waited for it: the receiver, or the sender where its link was the bottleneck.
    """

    round: int
    src: int
    dst: int
    rank: int
    start: float
    end: float


@dataclass(frozen=True)
class Price:
    """What a schedule costs.

    Attributes
    ----------
    time : from the common start to the last rank's end, s.
    bytes_per_link : link class name -> bytes moved over its links.
    rank_end : float64 (rank_size,), each rank's end, s.
    rank_bytes : int64 (rank_size,), what each rank sends.
    """

    time: float
    bytes_per_link: dict[str, int]
    rank_end: FloatArray
    rank_bytes: IntArray
    _call: tuple[Schedule, Topology, Any]

    @cached_property
    def critical_path(self) -> list[Step]:
        """The chain of messages that decides the time (computed when asked for)."""
        return _critical_path(*self._call)


class _Columns(Protocol):
    @property
    def src(self) -> IntArray: ...
    @property
    def dst(self) -> IntArray: ...
    @property
    def reduce(self) -> npt.NDArray[Any]: ...


def messages(round: _Columns, sizes: npt.ArrayLike, topology: Topology) -> Messages:
    """Join the transfers of one round to messages and time them.

    Parameters
    ----------
    round : a `Round` or `Moves`.
    sizes : bytes of each transfer; broadcasts against the round's columns.
    """
    src, dst, nbytes, reduced = _join(round, np.asarray(sizes, np.int64))
    sent = nbytes > 0
    if not sent.all():
        src, dst, nbytes, reduced = src[sent], dst[sent], nbytes[sent], reduced[sent]
    level = np.where(src == dst, LOCAL, topology.level_of(src, dst))
    duration = np.zeros(len(src))
    for index, link in enumerate(topology.links):
        on = np.flatnonzero(level == index)
        share: IntArray | int = 1
        if link.kind == "port":
            leaving, entering = np.bincount(src[on]), np.bincount(dst[on])
            share = np.maximum(leaving[src[on]], entering[dst[on]])
        duration[on] = link.alpha + nbytes[on] * (link.beta * share)
    apply = np.asarray(reduced * topology.gamma, np.float64)
    return Messages(src, dst, nbytes, duration, apply, level)


def _join(round: _Columns, sizes: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Sum bytes, and bytes to reduce, per (src, dst), in that order."""
    src, dst = np.broadcast_arrays(round.src, round.dst)
    shape = np.broadcast_shapes(src.shape, sizes.shape, round.reduce.shape)
    pairs = (1,) * (len(shape) - src.ndim) + src.shape
    inner = tuple(axis for axis, (a, b) in enumerate(zip(pairs, shape, strict=True)) if a < b)
    nbytes = np.broadcast_to(sizes, shape).sum(inner).ravel()
    reduced = np.broadcast_to(sizes * round.reduce, shape).sum(inner).ravel()
    src, dst = src.ravel(), dst.ravel()
    key = (src << 32) | dst
    if not (key[1:] > key[:-1]).all():
        key, group = np.unique(key, return_inverse=True)
        src, dst = key >> 32, key & 0xFFFFFFFF
        nbytes = np.bincount(group, nbytes, len(key)).astype(np.int64)
        reduced = np.bincount(group, reduced, len(key)).astype(np.int64)
    return src, dst, nbytes, reduced


def _messages(schedule: Schedule, topology: Topology, nbytes: Any) -> Iterator[Messages]:
    """Give each round's messages; a round of values in place is never expanded to chunks."""
    layout, tracer = Layout.of(schedule, nbytes), Tracer(schedule)
    border = np.append(layout.start[0], layout.start[0, -1] + layout.size[0, -1])
    for round in schedule.rounds:
        if tracer.in_place(round):
            sizes = border[round.src_chunk + round.count] - border[round.src_chunk]
            yield messages(round, sizes, topology)
        else:
            moves = tracer.moves(round)
            yield messages(moves, layout.size[moves.origin_rank, moves.origin], topology)


def _advance(clock: FloatArray, sent: Messages) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Take one round: when each message arrives, all of a rank's have come, and it ends."""
    arrival = clock[sent.src] + sent.duration
    come = clock.copy()
    np.maximum.at(come, sent.dst, arrival)
    end = come + np.bincount(sent.dst, sent.apply, len(clock))
    np.maximum.at(end, sent.src, arrival)
    return arrival, come, end


def price(schedule: Schedule, topology: Topology, nbytes: int | Sequence[int] | IntArray) -> Price:
    """Say what a schedule costs on a topology, all ranks entering at once.

    Parameters
    ----------
    nbytes : the full buffer (hccl.md's n: with blocks all of them), or the blocks' bytes; as
        `Layout.of`.

    Raises
    ------
    ValueError : the topology has another number of ranks.
    """
    p = schedule.rank_size
    if topology.rank_size != p:
        raise ValueError(f"the topology joins {topology.rank_size} ranks, the schedule has {p}")
    clock, rank_bytes = np.zeros(p), np.zeros(p, np.int64)
    total = np.zeros(len(topology.links) + 1, np.int64)  # the last one is LOCAL's
    for sent in _messages(schedule, topology, nbytes):
        *_, clock = _advance(clock, sent)
        np.add.at(total, sent.level, sent.nbytes)
        remote = sent.level != LOCAL
        np.add.at(rank_bytes, sent.src[remote], sent.nbytes[remote])
    moved: dict[str, int] = {}
    for link, amount in zip(topology.links, total.tolist(), strict=False):
        moved[link.name] = moved.get(link.name, 0) + amount
    return Price(float(clock.max()), moved, clock, rank_bytes, (schedule, topology, nbytes))


def _critical_path(schedule: Schedule, topology: Topology, nbytes: Any) -> list[Step]:
    p = schedule.rank_size
    clock, history = np.zeros(p), []
    for sent in _messages(schedule, topology, nbytes):
        arrival, come, end = _advance(clock, sent)
        decided = np.full((3, p), -1, np.int32)  # src, dst, and where the path goes on before
        last = arrival == come[sent.dst]
        decided[:, sent.dst[last]] = sent.src[last], sent.dst[last], sent.src[last]
        own = (arrival == end[sent.src]) & (arrival > clock[sent.src])
        slow = own & (come[sent.src] < end[sent.src])
        decided[:, sent.src[slow]] = sent.src[slow], sent.dst[slow], sent.src[slow]
        history.append((end, decided))
        clock = end
    rank, path = int(clock.argmax()), []
    for number in range(len(history) - 1, -1, -1):
        end, decided = history[number]
        src, dst, previous = decided[:, rank].tolist()
        if src < 0:
            continue
        start = history[number - 1][0][previous] if number else 0.0
        path.append(Step(number, src, dst, rank, float(start), float(end[rank])))
        rank = previous
    return path[::-1]
