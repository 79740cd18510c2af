"""Ring: every rank talks to its two neighbours only; the fewest bytes, the most steps.

For p ranks and n bytes (hccl.md 4.2, 4.4; Patarasuk and Yuan, JPDC 2009):

| collective             | steps  | cost                                                       |
|------------------------|--------|------------------------------------------------------------|
| reduce_scatter         | p-1    | (p-1) alpha + (p-1)/p n (beta + gamma)                     |
| all_gather             | p-1    | (p-1) alpha + (p-1)/p n beta                               |
| all_reduce             | 2(p-1) | 2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma           |
| broadcast              | p-1    | (p-1)(alpha + n beta)                                      |
| reduce                 | p-1    | (p-1)(alpha + n beta + n gamma)                            |
| scatter, gather        | p-1    | (p-1) alpha + (p-1)/p n beta                               |

With s slices the chains of broadcast and reduce become pipelines: p+s-2 steps of n/s bytes.
"""

import numpy as np

from hcom.schedule import Round, Rounds, Schedule, mirrored, rooted, then


def reduce_scatter(rank_size: int) -> Schedule:
    """Slice r starts at rank r+1 and comes round to rank r, each rank adding its own."""
    rank = np.arange(rank_size)

    def step(k: int) -> Round:
        chunk = (rank - 1 - k) % rank_size
        return Round(rank, (rank + 1) % rank_size, chunk, chunk, reduce=True)

    return Schedule("reduce_scatter", rank_size, rank_size, Rounds(rank_size - 1, step))


def all_gather(rank_size: int) -> Schedule:
    """Every rank passes on the block that came last, its own first."""
    rank = np.arange(rank_size)

    def step(k: int) -> Round:
        chunk = (rank - k) % rank_size
        return Round(rank, (rank + 1) % rank_size, chunk, chunk)

    return Schedule("all_gather", rank_size, rank_size, Rounds(rank_size - 1, step))


def all_reduce(rank_size: int) -> Schedule:
    """Reduce each slice on its way round, then send the sums round."""
    rounds = then(reduce_scatter(rank_size).rounds, all_gather(rank_size).rounds)
    return Schedule("all_reduce", rank_size, rank_size, rounds)


def broadcast(rank_size: int, root: int) -> Schedule:
    """Hand the whole buffer from neighbour to neighbour."""
    rounds = Rounds(rank_size - 1, lambda k: Round([k], [k + 1], [0], [0]))
    return rooted(Schedule("broadcast", rank_size, 1, rounds), root)


def reduce(rank_size: int, root: int) -> Schedule:
    """Start at the root's next neighbour and come round to the root, each rank adding its own."""

    def step(k: int) -> Round:
        return Round([k + 1], [(k + 2) % rank_size], [0], [0], reduce=True)

    return rooted(Schedule("reduce", rank_size, 1, Rounds(rank_size - 1, step)), root)


def scatter(rank_size: int, root: int) -> Schedule:
    """Send the most distant rank's block first; everyone passes on what is not its own."""

    def step(k: int) -> Round:
        rank = np.arange(k + 1)
        chunk = rank_size - 1 - k + rank
        return Round(rank, rank + 1, chunk, chunk)

    return rooted(Schedule("scatter", rank_size, rank_size, Rounds(rank_size - 1, step)), root)


def gather(rank_size: int, root: int) -> Schedule:
    """Run the scatter backwards: the nearest rank's block comes first."""
    return mirrored(scatter(rank_size, root))
