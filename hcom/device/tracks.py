"""Tracks of a timeline: which slices may lie on one line of the drawing, and in which order.

Perfetto draws slices of one track right only if every two of them nest or are apart (its issue
503), so slices that overlap in part move to a further track of the same name.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hcom.device.trace import Event


class Slice(NamedTuple):
    """An event of a rank with its place on the chosen clock, in whole nanoseconds.

    Whole numbers, because a viewer compares `ts + dur` with the next `ts`: rounded once and
    together, slices that touch still touch.
    """

    rank: int
    start: int
    end: int
    event: Event


class Track(NamedTuple):
    """One line of the drawing: its rank, its number there from 1, its name, its slices by start."""

    rank: int
    number: int
    name: str
    slices: list[Slice]


def tracks(slices: Iterable[Slice]) -> list[Track]:
    """Arrange slices in tracks: by rank, there phase, compute, then one per communicator."""
    ranks: dict[int, dict[str, list[Slice]]] = {}
    for piece in slices:
        ranks.setdefault(piece.rank, {}).setdefault(piece.event.stream, []).append(piece)
    return [
        Track(rank, number, name, lane)
        for rank in sorted(ranks)
        for number, (name, lane) in enumerate(_named_lanes(ranks[rank]), start=1)
    ]


def _named_lanes(streams: dict[str, list[Slice]]) -> Iterator[tuple[str, list[Slice]]]:
    for stream in sorted(streams, key=_stream_order):
        for number, lane in enumerate(_lanes(stream, streams[stream]), start=1):
            yield (stream if number == 1 else f"{stream} ({number})"), lane


def _stream_order(stream: str) -> tuple[int, str]:
    return ({"phase": 0, "compute": 1}.get(stream, 2), stream)


def _lanes(stream: str, slices: list[Slice]) -> list[list[Slice]]:
    """Split the slices of a stream in lanes, each slice in the first lane that has room.

    Communication never nests: an arrow binds to the innermost slice at its time, which then is
    the one meant.
    """
    nests = not stream.startswith("comm")
    slices = sorted(slices, key=lambda s: (s.start, -s.end if nests else s.end))
    lanes: list[list[Slice]] = []
    open_slices: list[list[int]] = []  # for each lane the ends of the slices around "now"
    for piece in slices:
        for lane, ends in zip(lanes, open_slices, strict=True):
            while ends and ends[-1] <= piece.start:
                ends.pop()
            if not ends or (nests and piece.end <= ends[-1]):
                lane.append(piece)
                ends.append(piece.end)
                break
        else:
            lanes.append([piece])
            open_slices.append([piece.end])
    return lanes
