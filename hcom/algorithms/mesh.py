"""Mesh: every rank talks to all others at once; the fewest steps, for links of their own.

For p ranks and n bytes (hccl.md 4.2, 4.4 "Mesh"); with the root sending on p-1 links at once:

| collective                   | steps | cost                                                |
|------------------------------|-------|-----------------------------------------------------|
| scatter, gather, all_gather  | 1     | alpha + (n/p) beta                                  |
| all_to_all                   | 1     | alpha + (n/p) beta                                  |
| reduce_scatter               | 1     | alpha + (n/p) beta + (p-1)/p n gamma                |
| broadcast = scatter + all_gather | 2 | 2 alpha + 2(n/p) beta                               |
| reduce = reduce_scatter + gather | 2 | 2 alpha + 2(n/p) beta + (p-1)/p n gamma             |
| all_reduce (two-shot)        | 2     | 2 alpha + 2(n/p) beta + (p-1)/p n gamma             |
| all_reduce, `one_shot`       | 1     | alpha + n beta + (p-1) n gamma; (p-1) n bytes a rank |
"""

import numpy as np

from hcom.schedule import Round, Schedule, mirrored, sparing, then
from hcom.schedule.value import IntArray


def _pairs(rank_size: int) -> tuple[IntArray, IntArray]:
    """Every rank as a column, and beside it all its peers, the next one first."""
    rank = np.arange(rank_size)[:, None]
    return rank, (rank + np.arange(1, rank_size)) % rank_size


def reduce_scatter(rank_size: int) -> Schedule:
    """Everyone sends each rank its slice, and adds what comes."""
    src, dst = _pairs(rank_size)
    rounds = [Round(src, dst, dst, dst, reduce=True)] if rank_size > 1 else []
    return Schedule("reduce_scatter", rank_size, rank_size, rounds)


def all_gather(rank_size: int) -> Schedule:
    """Everyone sends its block to all others."""
    src, dst = _pairs(rank_size)
    rounds = [Round(src, dst, src, src)] if rank_size > 1 else []
    return Schedule("all_gather", rank_size, rank_size, rounds)


def all_reduce(rank_size: int, *, one_shot: bool = False) -> Schedule:
    """Two shots: reduce_scatter, all_gather; or one: everyone sends everything to all others."""
    if one_shot:
        src, dst = _pairs(rank_size)
        rounds = [Round(src, dst, 0, 0, reduce=True)] if rank_size > 1 else []
        return Schedule("all_reduce", rank_size, 1, rounds)
    both = then(reduce_scatter(rank_size).rounds, all_gather(rank_size).rounds)
    return Schedule("all_reduce", rank_size, rank_size, both)


def scatter(rank_size: int, root: int) -> Schedule:
    """Send each rank its block, from the root."""
    peer = np.delete(np.arange(rank_size), root)
    rounds = [Round(root, peer, peer, peer)] if rank_size > 1 else []
    return Schedule("scatter", rank_size, rank_size, rounds, root)


def gather(rank_size: int, root: int) -> Schedule:
    """Run the scatter backwards."""
    return mirrored(scatter(rank_size, root))


def broadcast(rank_size: int, root: int) -> Schedule:
    """Scatter the buffer, then gather the parts everywhere but at the root, which has them."""
    spread = sparing(all_gather(rank_size).rounds, root)
    rounds = then(scatter(rank_size, root).rounds, spread)
    return Schedule("broadcast", rank_size, rank_size, rounds, root)


def reduce(rank_size: int, root: int) -> Schedule:
    """Reduce and scatter the buffer, then gather the sums at the root."""
    rounds = then(reduce_scatter(rank_size).rounds, gather(rank_size, root).rounds)
    return Schedule("reduce", rank_size, rank_size, rounds, root)


def all_to_all(rank_size: int) -> Schedule:
    """Everyone sends each rank its block, its own included (a local move)."""
    rank, offset = np.arange(rank_size)[:, None], np.arange(rank_size)
    peer = (rank + offset) % rank_size
    rounds = [Round(rank, peer, peer, rank_size + rank)]
    return Schedule("all_to_all", rank_size, 2 * rank_size, rounds)
