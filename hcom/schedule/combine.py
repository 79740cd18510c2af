"""Combinators: larger schedules from smaller ones, each keeping what it promises of the meaning."""

import dataclasses

import numpy as np
import numpy.typing as npt

from hcom.schedule.meaning import BLOCKED, ROOTED, chunks_per_block
from hcom.schedule.value import IntArray, Round, Rounds, Schedule

MIRROR = {
    "all_reduce": "all_reduce",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "broadcast": "reduce",
    "reduce": "broadcast",
    "scatter": "gather",
    "gather": "scatter",
}


def then(*parts: Rounds) -> Rounds:
    """Run one part after another."""
    ends = np.cumsum([len(part) for part in parts])

    def make(i: int) -> Round:
        part = int(np.searchsorted(ends, i, side="right"))
        return parts[part][i - int(ends[part])]  # counted from the part's end

    return Rounds(int(ends[-1]) if parts else 0, make)


def together(*parts: Rounds) -> Rounds:
    """Run parts side by side, round by round; no (rank, position) may be in two of them."""

    def make(i: int) -> Round:
        return _joined([part[i] for part in parts if i < len(part)])

    return Rounds(max(map(len, parts), default=0), make)


def _joined(rounds: list[Round]) -> Round:
    if len(rounds) == 1:
        return rounds[0]
    return Round(*map(np.concatenate, zip(*(r.columns() for r in rounds), strict=True)))


def sparing(rounds: Rounds, rank: int) -> Rounds:
    """Leave out what goes to a rank that has it all already."""

    def make(i: int) -> Round:
        round = rounds[i]
        return round.where(round.dst != rank)

    return Rounds(len(rounds), make)


def on(part: Schedule, ranks: npt.ArrayLike, at: npt.ArrayLike, width: int = 1) -> Rounds:
    """Place a schedule on other ranks and wider positions.

    Parameters
    ----------
    ranks : rank i becomes `ranks[i]`; with shape (copies, part.rank_size) a row is one copy.
    at : chunk c becomes the `width` positions from `at[c]`; with shape (copies, positions) each
        copy has a row; with (copies, positions, starts) a chunk is `width` positions from each of
        its starts.

    Raises
    ------
    ValueError : a shape does not fit the part, or two of its (rank, position)s become one.
    """
    rank_of = np.atleast_2d(np.asarray(ranks, np.int64))
    start = np.asarray(at, np.int64)
    start = start[None] if start.ndim == 1 else start
    start = start[..., None] if start.ndim == 2 else start
    _check_cover(part, rank_of, start, width)
    apart = start.shape[2] > 1 or bool((np.diff(start, axis=1) != width).any())

    def make(i: int) -> Round:
        # Chunks that stay neighbours move as one run; others one by one.
        round = part.rounds[i].singles() if apart else part.rounds[i]
        copy = np.arange(len(rank_of)).reshape(-1, *(1,) * len(round.shape))
        row = copy % len(start)
        here = start[row, round.src_chunk]
        there = here if round.in_place else start[row, round.dst_chunk]
        src, dst = rank_of[copy, round.src][..., None], rank_of[copy, round.dst][..., None]
        reduce, count = round.reduce[..., None], round.count[..., None] * width
        return Round(src, dst, here, there, reduce, count)

    return Rounds(len(part.rounds), make)


def _check_cover(part: Schedule, rank_of: IntArray, start: IntArray, width: int) -> None:
    copies, ranks = rank_of.shape
    if ranks != part.rank_size:
        raise ValueError(f"a row of ranks names {ranks} ranks, {part.title} has {part.rank_size}")
    if start.shape[0] not in (1, copies) or start.shape[1] != part.num_positions:
        need = f"(1 or {copies}, {part.num_positions}) starts for {part.title}"
        raise ValueError(f"`at` has shape {start.shape[:2]}, expected {need}")
    runs = start.reshape(len(start), -1)
    gaps = np.diff(np.sort(runs, axis=1), axis=1)
    if (gaps < width).any():
        raise ValueError(f"`at` makes two chunks of {part.title} one position (width {width})")
    if any(np.unique(row).size < ranks for row in rank_of):
        raise ValueError(f"a row of ranks names one rank twice ({part.title})")
    if np.unique(rank_of).size < rank_of.size:
        _check_shared(part, rank_of, np.broadcast_to(runs, (copies, runs.shape[1])), width)


def _check_shared(part: Schedule, rank_of: IntArray, runs: IntArray, width: int) -> None:
    """Refuse two copies that meet on a rank at one position."""
    spots = (runs[:, :, None] + np.arange(width)).reshape(len(runs), 1, -1)
    places = (rank_of[:, :, None] * (int(spots.max()) + 1) + spots).ravel()
    if np.unique(places).size < places.size:
        raise ValueError(f"two copies of {part.title} meet on one rank and position")


def relabelled(schedule: Schedule, ranks: npt.ArrayLike) -> Schedule:
    """Give rank i the number `ranks[i]`: the root moves along, and every rank's blocks do.

    Raises
    ------
    ValueError : `ranks` is no permutation.
    """
    rank_of = np.asarray(ranks, np.int64)
    if not np.array_equal(np.sort(rank_of), np.arange(schedule.rank_size)):
        raise ValueError(f"ranks is no permutation of 0 to {schedule.rank_size - 1}: {rank_of}")
    at = np.arange(schedule.num_positions)
    if schedule.collective in BLOCKED:
        k = chunks_per_block(schedule)
        halves = rank_of + schedule.rank_size * np.arange(2)[:, None]  # of all_to_all; else one
        blocks = halves.ravel()[: schedule.num_chunks // k]
        at[: schedule.num_chunks] = (blocks[:, None] * k + np.arange(k)).ravel()
    root = int(rank_of[schedule.root]) if schedule.collective in ROOTED else 0
    return dataclasses.replace(schedule, root=root, rounds=on(schedule, rank_of, at))


def rooted(schedule: Schedule, root: int) -> Schedule:
    """Turn a schedule of root 0 round, so that rank i becomes rank `root + i`."""
    if root == 0:
        return schedule
    return relabelled(schedule, (np.arange(schedule.rank_size) + root) % schedule.rank_size)


def sliced(schedule: Schedule, slices: int) -> Schedule:
    """Cut every block in contiguous slices and start slice j one round after slice j - 1.

    The meaning is kept; with s slices and R rounds there are R + s - 1 rounds, and while slice j
    is in round i, slice j + 1 is in round i - 1: a software pipeline.
    """
    if slices < 1:
        raise ValueError(f"slices is at least 1, not {slices}")
    if slices == 1:
        return schedule
    parts = len(schedule.rounds)

    def make(i: int) -> Round:
        active = range(max(0, i - parts + 1), min(slices, i + 1))
        return _joined([_slice(schedule.rounds[i - j].singles(), slices, j) for j in active])

    return dataclasses.replace(
        schedule,
        num_chunks=schedule.num_chunks * slices,
        num_scratch=schedule.num_scratch * slices,
        rounds=Rounds(parts + slices - 1 if parts else 0, make),
    )


def _slice(round: Round, slices: int, j: int) -> Round:
    here = round.src_chunk * slices + j
    there = here if round.in_place else round.dst_chunk * slices + j
    return Round(round.src, round.dst, here, there, round.reduce)


def mirrored(schedule: Schedule) -> Schedule:
    """Run a schedule backwards in time, with copies and reductions exchanged.

    all_gather becomes reduce_scatter, broadcast becomes reduce, scatter becomes gather (where
    nothing is added), and back; an all_reduce stays one. It holds where no transfer is needless:
    a value sent twice would come back added twice.

    Raises
    ------
    ValueError : all_to_all, whose mirror is another all_to_all with input and output exchanged.
    """
    if schedule.collective not in MIRROR:
        raise ValueError(f"{schedule.collective} has no mirror; these do: {', '.join(MIRROR)}")
    adds = schedule.collective not in ("scatter", "gather")

    def make(i: int) -> Round:
        round = schedule.rounds[len(schedule.rounds) - 1 - i]
        here = round.dst_chunk
        there = here if round.in_place else round.src_chunk
        reduce = ~round.reduce if adds else round.reduce
        return Round(round.dst, round.src, here, there, reduce, round.count)

    rounds = Rounds(len(schedule.rounds), make)
    return dataclasses.replace(schedule, collective=MIRROR[schedule.collective], rounds=rounds)
