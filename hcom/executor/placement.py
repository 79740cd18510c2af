"""Where one rank's input and output arrays hold the positions of a schedule, in bytes."""

import numpy as np

from hcom.schedule import Schedule
from hcom.schedule.layout import Layout
from hcom.schedule.meaning import NOTHING, after, before

Span = tuple[int, int]  # offset and size in bytes
# The whole buffer, or the bytes of each block, or those of block [sender][receiver].
Counts = int | tuple[int, ...] | tuple[tuple[int, ...], ...]


class Placement:
    """The positions of one rank's arrays under a schedule and counts.

    Parameters
    ----------
    counts : bytes, as `Layout.of` takes them.

    Attributes
    ----------
    inputs, outputs : the span of each position that the rank's arrays hold.
    """

    def __init__(self, schedule: Schedule, counts: Counts, rank: int) -> None:
        self._fill(
            Layout.of(schedule, np.asarray(counts, np.int64)),
            rank,
            before(schedule)[rank],
            after(schedule)[0][rank] != NOTHING,
        )

    @classmethod
    def of_all(cls, schedule: Schedule, counts: Counts) -> "list[Placement]":
        """Make the placement of every rank."""
        layout = Layout.of(schedule, np.asarray(counts, np.int64))
        held, wanted = before(schedule), after(schedule)[0] != NOTHING
        made = [cls.__new__(cls) for _ in range(schedule.rank_size)]
        for rank, placement in enumerate(made):
            placement._fill(layout, rank, held[rank], wanted[rank])
        return made

    def _fill(self, layout: Layout, rank: int, held: np.ndarray, wanted: np.ndarray) -> None:
        self._sizes = layout.size
        self.inputs = self._spans(layout, rank, np.flatnonzero(held))
        self.outputs = self._spans(layout, rank, np.flatnonzero(wanted))

    @staticmethod
    def _spans(layout: Layout, rank: int, held: np.ndarray) -> dict[int, Span]:
        """Give offsets from the first position held: an array begins there."""
        starts, sizes = layout.start[rank, held], layout.size[rank, held]
        offsets = starts - starts[:1].sum()
        spans = zip(offsets.tolist(), sizes.tolist(), strict=True)
        return dict(zip(held.tolist(), spans, strict=True))

    def size(self, origin_rank: int, position: int) -> int:
        """Bytes of the value that a rank's input holds at a position."""
        return int(self._sizes[origin_rank, position])
