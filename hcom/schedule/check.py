"""The checker: replays a schedule on symbols and refuses what does not end as it must.

Every position holds an origin (which position of the input it came from) and a set of ranks whose
contributions are added in it, as bits. No process is needed, and no number: what passes here is
right for every type, size and reduction.
"""

import numpy as np
import numpy.typing as npt

from hcom.schedule.meaning import EVERYONE, NOTHING, after, before, check_header
from hcom.schedule.value import IntArray, Round, Schedule, ScheduleError

Bits = npt.NDArray[np.uint64]
ABSENT = -1


def check(schedule: Schedule) -> None:
    """Refuse a schedule that does not do what its collective means.

    Raises
    ------
    ScheduleError : reading or reducing into a position that holds nothing; a contribution counted
        twice; values of different origin added; a copy beside another write to one position in
        one round; a rank or position out of range; a wrong end. The text names the schedule, the
        round and the transfer.
    """
    check_header(schedule)
    replay = _Replay(schedule)
    for number, round in enumerate(schedule.rounds):
        replay.run(number, round)
    replay.check_end()


def _ranks(bits: Bits) -> str:
    members = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
    return "{" + ",".join(map(str, members)) + "}"


class _Replay:
    """What every (rank, position) holds, while the rounds go by."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        p, positions = schedule.rank_size, schedule.num_positions
        self.alone: Bits = np.zeros((p, -(-p // 64)), np.uint64)
        rank = np.arange(p)
        self.alone[rank, rank // 64] = np.uint64(1) << (rank % 64).astype(np.uint64)
        self.origin = np.full((p, positions), ABSENT, np.int64)
        self.bits: Bits = np.zeros((p, positions, self.alone.shape[1]), np.uint64)
        owner, chunk = np.nonzero(before(schedule))
        self.origin[owner, chunk] = chunk
        self.bits[owner, chunk] = self.alone[owner]

    def run(self, number: int, round: Round) -> None:
        """Apply one round, after everything it says has been found legal."""
        self.number, self.round = number, round
        self._check_ranges()
        src, dst, here, there, reduce, _ = round.singles().columns()
        adds = reduce.astype(np.bool_)
        origin, bits = self.origin[src, here], self.bits[src, here]
        self._refuse(origin == ABSENT, "the source holds nothing there")
        self._refuse(adds & (self.origin[dst, there] == ABSENT), "it would add to nothing")
        self._refuse(adds & (self.origin[dst, there] != origin), "it adds values of two origins")
        target = dst * self.schedule.num_positions + there
        _, group, writes = np.unique(target, return_inverse=True, return_counts=True)
        self._refuse(~adds & (writes[group] > 1), "its copy meets another write of this round")
        copies = ~adds
        self.origin[dst[copies], there[copies]] = origin[copies]
        self.bits[dst[copies], there[copies]] = bits[copies]
        self._add(np.flatnonzero(adds), dst, there, bits)

    def _add(self, adds: IntArray, dst: IntArray, there: IntArray, bits: Bits) -> None:
        """Add contributions, transfer by transfer of one position, refusing the second of one."""
        while adds.size:
            target = dst[adds] * self.schedule.num_positions + there[adds]
            _, first = np.unique(target, return_index=True)
            now = adds[first]
            held = self.bits[dst[now], there[now]]
            twice = np.zeros(dst.size, np.bool_)
            twice[now] = (held & bits[now]).any(axis=1)
            self._refuse(twice, "it counts a contribution twice")
            self.bits[dst[now], there[now]] = held | bits[now]
            adds = np.delete(adds, first)

    def _check_ranges(self) -> None:
        p, positions = self.schedule.rank_size, self.schedule.num_positions
        src, dst, here, there, _, count = self.round.columns()
        for wrong, what in (
            ((src < 0) | (src >= p) | (dst < 0) | (dst >= p), f"ranks are 0 to {p - 1}"),
            (count < 1, "count is at least 1"),
            (
                (here < 0) | (here + count > positions) | (there < 0) | (there + count > positions),
                f"positions are 0 to {positions - 1}",
            ),
        ):
            if wrong.any():
                self._fail(int(np.argmax(wrong)), what)

    def _refuse(self, wrong: npt.NDArray[np.bool_], what: str) -> None:
        """Refuse a round of single-chunk moves if one of them is wrong."""
        if wrong.any():
            count = self.round.columns()[-1]
            move = int(np.argmax(wrong))
            self._fail(int(np.searchsorted(np.cumsum(count), move, side="right")), what)

    def _fail(self, index: int, what: str) -> None:
        columns = [column[index : index + 1] for column in self.round.columns()]
        (transfer,) = Round(*columns)
        raise ScheduleError(f"{self.schedule.title}: round {self.number}: {transfer}: {what}")

    def check_end(self) -> None:
        """Refuse an end in which a rank lacks part of its result."""
        origin, contributor = after(self.schedule)
        rank, chunk = np.nonzero(origin != NOTHING)
        wanted, who = origin[rank, chunk], contributor[rank, chunk]
        everyone = np.bitwise_or.reduce(self.alone, axis=0)
        bits = np.where((who == EVERYONE)[:, None], everyone, self.alone[who])
        wrong = (self.origin[rank, chunk] != wanted) | (self.bits[rank, chunk] != bits).any(axis=1)
        if not wrong.any():
            return
        i = int(np.argmax(wrong))
        at = (rank[i], chunk[i])
        holds = "nothing"
        if self.origin[at] != ABSENT:
            holds = f"chunk {self.origin[at]} of ranks {_ranks(self.bits[at])}"
        raise ScheduleError(
            f"{self.schedule.title}: at the end rank {at[0]} holds {holds} at position {at[1]}, "
            f"where chunk {wanted[i]} of ranks {_ranks(bits[i])} must be"
        )
