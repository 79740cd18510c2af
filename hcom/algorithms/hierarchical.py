"""Hierarchical: one algorithm inside groups of ranks (servers), another between them.

For p ranks in S groups of L (`intra_group_size`; by default the largest divisor of p up to its
square root) the steps are the sums of the levels' own; same-numbered ranks of all groups talk
between groups. The order of levels is that of hccl.md 4.5. With the default algorithms (mesh
inside; between NHR, RHD for reduce, pairwise for all_to_all) and k = ceil(log S):

| collective     | levels                                           | steps  | bytes between    |
|----------------|--------------------------------------------------|--------|------------------|
| reduce_scatter | inter, intra                                     | k + 1  | (S-1)/S n        |
| all_gather     | intra, inter                                     | k + 1  | (S-1)/S n        |
| all_reduce     | intra reduce_scatter, inter, intra all_gather    | 2k + 2 | 2(S-1)/S n/L     |
| scatter        | inter, intra                                     | k + 1  | (S-1)/S n        |
| gather         | intra, inter                                     | k + 1  | received likewise |
| broadcast      | intra scatter, inter, intra all_gather           | 2k + 2 | 2(S-1)/S n/L     |
| reduce         | intra reduce_scatter, inter, intra gather        | RHD's + 2 | under 3/2 n/L |
| all_to_all     | intra, inter                                     | S      | (S-1)/S n        |

A step costs one alpha of its level, and bytes between (those of the busiest rank) beta_inter
each. Inside, a mesh step of whole buffers costs n/L beta, of blocks as many as it hands to one
peer, n/p beta each; reductions cost gamma where the levels' own do.
"""

from math import isqrt
from types import ModuleType

import numpy as np

from hcom.algorithms import mesh, nb, nhr, nhr_v1, pairwise, rhd, ring
from hcom.schedule import Round, Rounds, Schedule, mirrored, on, sparing, then
from hcom.schedule.value import IntArray

LEVELS = {
    "mesh": mesh,
    "ring": ring,
    "rhd": rhd,
    "nhr": nhr,
    "nhr_v1": nhr_v1,
    "nb": nb,
    "pairwise": pairwise,
}


def group_size(rank_size: int, given: int | None) -> int:
    """Give the ranks of a group: as told, or the largest divisor up to the square root.

    Raises
    ------
    ValueError : the given size does not divide the ranks.
    """
    if given is None:
        return max(d for d in range(1, isqrt(rank_size) + 1) if rank_size % d == 0)
    if given < 1 or rank_size % given:
        other = "ahc takes groups of unequal size"
        raise ValueError(f"intra_group_size divides the {rank_size} ranks, {given} not: {other}")
    return given


def _level(name: str, collective: str) -> ModuleType:
    if name in LEVELS and hasattr(LEVELS[name], collective):
        return LEVELS[name]
    known = ", ".join(n for n, module in LEVELS.items() if hasattr(module, collective))
    raise ValueError(f"no algorithm {name!r} for {collective} on one level; there are: {known}")


def _grid(rank_size: int, intra_group_size: int | None) -> IntArray:
    """Give the ranks, a row a group; the columns are the same-numbered ranks."""
    return np.arange(rank_size).reshape(-1, group_size(rank_size, intra_group_size))


def reduce_scatter(
    rank_size: int, *, intra_group_size: int | None = None, intra: str = "mesh", inter: str = "nhr"
) -> Schedule:
    """Between groups first, a group's blocks as one; then inside."""
    rows = _grid(rank_size, intra_group_size)
    groups, size = rows.shape
    between = _level(inter, "reduce_scatter").reduce_scatter(groups)
    within = _level(intra, "reduce_scatter").reduce_scatter(size)
    rounds = then(on(between, rows.T, rows[:, 0], size), on(within, rows, rows))
    return Schedule("reduce_scatter", rank_size, rank_size, rounds)


def all_gather(
    rank_size: int, *, intra_group_size: int | None = None, intra: str = "mesh", inter: str = "nhr"
) -> Schedule:
    """Inside groups first; then between, a group's blocks as one."""
    rows = _grid(rank_size, intra_group_size)
    groups, size = rows.shape
    within = _level(intra, "all_gather").all_gather(size)
    between = _level(inter, "all_gather").all_gather(groups)
    rounds = then(on(within, rows, rows), on(between, rows.T, rows[:, 0], size))
    return Schedule("all_gather", rank_size, rank_size, rounds)


def all_reduce(
    rank_size: int, *, intra_group_size: int | None = None, intra: str = "mesh", inter: str = "nhr"
) -> Schedule:
    """Reduce and scatter inside, all_reduce each slice between, gather inside."""
    rows = _grid(rank_size, intra_group_size)
    groups, size = rows.shape
    level = _level(intra, "reduce_scatter")
    between = _level(inter, "all_reduce").all_reduce(groups)
    slices = np.arange(size) * between.num_chunks
    rounds = then(
        on(level.reduce_scatter(size), rows, slices, between.num_chunks),
        on(between, rows.T, slices[:, None] + np.arange(between.num_chunks)),
        on(level.all_gather(size), rows, slices, between.num_chunks),
    )
    return Schedule("all_reduce", rank_size, size * between.num_chunks, rounds)


def scatter(
    rank_size: int,
    root: int,
    *,
    intra_group_size: int | None = None,
    intra: str = "mesh",
    inter: str = "nhr",
) -> Schedule:
    """From the root to its same-numbered ranks a group's blocks; from those inside."""
    rows = _grid(rank_size, intra_group_size)
    groups, size = rows.shape
    group, number = divmod(root, size)
    between = _level(inter, "scatter").scatter(groups, group)
    within = _level(intra, "scatter").scatter(size, number)
    rounds = then(on(between, rows[:, number], rows[:, 0], size), on(within, rows, rows))
    return Schedule("scatter", rank_size, rank_size, rounds, root)


def gather(
    rank_size: int,
    root: int,
    *,
    intra_group_size: int | None = None,
    intra: str = "mesh",
    inter: str = "nhr",
) -> Schedule:
    """Run the scatter backwards."""
    there = scatter(rank_size, root, intra_group_size=intra_group_size, intra=intra, inter=inter)
    return mirrored(there)


def broadcast(
    rank_size: int,
    root: int,
    *,
    intra_group_size: int | None = None,
    intra: str = "mesh",
    inter: str = "nhr",
) -> Schedule:
    """Scatter in the root's group, broadcast each slice between groups, gather inside."""
    rows = _grid(rank_size, intra_group_size)
    groups, size = rows.shape
    group, number = divmod(root, size)
    level = _level(intra, "scatter")
    between = _level(inter, "broadcast").broadcast(groups, group)
    slices = np.arange(size) * between.num_chunks
    rounds = then(
        on(level.scatter(size, number), rows[group], slices, between.num_chunks),
        on(between, rows.T, slices[:, None] + np.arange(between.num_chunks)),
        sparing(on(level.all_gather(size), rows, slices, between.num_chunks), root),
    )
    return Schedule("broadcast", rank_size, size * between.num_chunks, rounds, root)


def reduce(
    rank_size: int,
    root: int,
    *,
    intra_group_size: int | None = None,
    intra: str = "mesh",
    inter: str = "rhd",
) -> Schedule:
    """Reduce and scatter inside, reduce each slice between groups, gather in the root's group."""
    rows = _grid(rank_size, intra_group_size)
    groups, size = rows.shape
    group, number = divmod(root, size)
    level = _level(intra, "reduce_scatter")
    between = _level(inter, "reduce").reduce(groups, group)
    slices = np.arange(size) * between.num_chunks
    rounds = then(
        on(level.reduce_scatter(size), rows, slices, between.num_chunks),
        on(between, rows.T, slices[:, None] + np.arange(between.num_chunks)),
        on(level.gather(size, number), rows[group], slices, between.num_chunks),
    )
    return Schedule("reduce", rank_size, size * between.num_chunks, rounds, root)


def all_to_all(rank_size: int, *, intra_group_size: int | None = None) -> Schedule:
    """Sort blocks by the number of their destination inside groups, then exchange between.

    A block for another group waits at its own group's rank of the destination's number, in
    scratch, at the position (sender's number, destination's group).
    """
    p = rank_size
    size = group_size(p, intra_group_size)
    groups = p // size
    rank, peer, group = np.ogrid[:p, :size, :groups]
    own, number = rank // size, rank % size
    block = group * size + peer  # by destination
    waits = np.where(own == group, p + rank, 2 * p + number * groups + group)
    inside = Round(rank, own * size + peer, block, waits)
    inside = inside.where((number != peer) | (own == group))

    def between(i: int) -> Round:
        there = (own + i + 1) % groups
        sender = peer  # the number of the rank in this group that the block came from
        mine = there * size + number
        here = np.where(sender == number, mine, 2 * p + sender * groups + there)
        return Round(rank, mine, here, p + own * size + sender)

    rounds = then(Rounds.of([inside]), Rounds(groups - 1, between))
    scratch = p if groups > 1 and size > 1 else 0
    return Schedule("all_to_all", p, 2 * p, rounds, num_scratch=scratch)
