"""Moves: a schedule's transfers chunk by chunk, each with the origin of the value it carries.

The bytes of a value are those of the position it came from, so whoever binds a schedule to data
(price, executor) needs the origin; it can differ from the position only through scratch and
all_to_all.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hcom.schedule.meaning import chunks_per_block
from hcom.schedule.value import IntArray, Round, Schedule


class Moves(NamedTuple):
    """The single-chunk moves of one round, as int64 columns in listed order.

    `origin` is the position whose size the value has, `origin_rank` the rank whose input it came
    from (for sums: one of them).
    """

    src: IntArray
    dst: IntArray
    src_chunk: IntArray
    dst_chunk: IntArray
    reduce: IntArray
    origin: IntArray
    origin_rank: IntArray


class Tracer:
    """Follows values to their origins; keeps no state while every round moves them in place."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._origin: IntArray | None = None
        self._origin_rank: IntArray | None = None

    def in_place(self, round: Round) -> bool:
        """Up to this round every value is at the position it came from."""
        plain = self._schedule.collective != "all_to_all" and not self._schedule.num_scratch
        return plain and self._origin is None and round.in_place

    def moves(self, round: Round) -> Moves:
        """Give the next round's moves, and follow them."""
        src, dst, here, there, reduce, _ = round.singles().columns()
        if self.in_place(round):
            ranks = np.broadcast_to(self._owner(src, here), src.shape)
            return Moves(src, dst, here, there, reduce, here, ranks)
        if self._origin is None or self._origin_rank is None:
            rank, chunk = np.indices((self._schedule.rank_size, self._schedule.num_positions))
            self._origin, self._origin_rank = chunk, self._owner(rank, chunk) + 0 * rank
        origin, owner = self._origin[src, here], self._origin_rank[src, here]
        self._origin[dst, there], self._origin_rank[dst, there] = origin, owner
        return Moves(src, dst, here, there, reduce, origin, owner)

    def _owner(self, rank: IntArray, chunk: IntArray) -> npt.NDArray[np.int64]:
        match self._schedule.collective:
            case "all_gather" | "gather":
                return chunk // chunks_per_block(self._schedule)
            case "broadcast" | "scatter":
                return np.asarray(self._schedule.root)
            case _:
                return rank


def moves(schedule: Schedule) -> Iterator[Moves]:
    """Give the single-chunk moves of each round; the schedule is taken to be checked."""
    tracer = Tracer(schedule)
    for round in schedule.rounds:
        yield tracer.moves(round)
