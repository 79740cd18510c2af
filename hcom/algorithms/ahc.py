"""AHC: asymmetric hierarchical concatenate; groups of unequal size, NHR inside, rings between.

For G groups (`groups`, sizes in rank order; by default about sqrt p, as equal as can be), the
smallest of m ranks and the largest of M (hccl.md 4.2, 4.4 "AHC"): NHR reduce_scatter inside each
group; then each part of the data that one rank of every group holds runs a ring all_reduce between
those; then NHR all_gather inside.

Steps: 2 ceil(log M) + 2(G-1). Busiest rank, in a group of g: (g-1)/g n a phase inside, and
2(G-1)/G n/g between: at most (2(M-1)/M + 2(G-1)/(G m)) n bytes and half of that in gamma.
(The vendor's formula has NB between: 2 ceil(log G) steps.)
"""

from collections.abc import Sequence
from math import isqrt, lcm

import numpy as np

from hcom.algorithms import nhr, ring
from hcom.schedule import Rounds, Schedule, on, then, together
from hcom.schedule.value import IntArray


def _members(rank_size: int, groups: Sequence[int] | None) -> list[IntArray]:
    """Give the ranks of each group.

    Raises
    ------
    ValueError : sizes that are not positive, or do not sum to the rank size.
    """
    rank = np.arange(rank_size)
    if groups is None:
        return np.array_split(rank, isqrt(rank_size))
    if min(groups, default=0) < 1 or sum(groups) != rank_size:
        raise ValueError(f"groups are positive sizes of {rank_size} ranks together, not {groups}")
    return np.split(rank, np.cumsum(groups)[:-1])


def all_reduce(rank_size: int, *, groups: Sequence[int] | None = None) -> Schedule:
    """Reduce and scatter inside, all_reduce between at the union of all borders, gather inside."""
    members = _members(rank_size, groups)
    common = lcm(*map(len, members))
    pieces = common * len(members)

    def inside(algorithm: str) -> Rounds:
        parts = []
        for ranks in members:
            width = pieces // len(ranks)
            part = getattr(nhr, algorithm)(len(ranks))
            parts.append(on(part, ranks, np.arange(len(ranks)) * width, width))
        return together(*parts)

    borders = sorted({i * pieces // len(ranks) for ranks in members for i in range(len(ranks))})
    between = []
    for first, end in zip(borders, [*borders[1:], pieces], strict=True):
        holders = [ranks[first * len(ranks) // pieces] for ranks in members]
        width = (end - first) // len(members)
        starts = first + np.arange(len(members)) * width
        between.append(on(ring.all_reduce(len(members)), holders, starts, width))
    rounds = then(inside("reduce_scatter"), together(*between), inside("all_gather"))
    return Schedule("all_reduce", rank_size, pieces, rounds)
