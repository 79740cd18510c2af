"""Star: the root exchanges with every rank in one step; all_reduce meets at rank 0.

For p ranks and n bytes (hccl.md 4.2, 4.4 "Star"); where the root's p-1 messages share one port,
its link carries all of them:

| collective      | steps | links of their own      | one port                            |
|-----------------|-------|-------------------------|-------------------------------------|
| scatter, gather | 1     | alpha + (n/p) beta      | alpha + (p-1)/p n beta              |
| broadcast       | 1     | alpha + n beta          | alpha + (p-1) n beta                |
| reduce          | 1     | the same, + (p-1) n gamma                                     |
| all_reduce      | 2     | reduce, then broadcast; rank 0 sends (p-1) n bytes            |
"""

import numpy as np

from hcom.algorithms.mesh import gather, scatter
from hcom.schedule import Round, Schedule, mirrored, then

__all__ = ["all_reduce", "broadcast", "gather", "reduce", "scatter"]


def broadcast(rank_size: int, root: int) -> Schedule:
    """Send the whole buffer to everyone at once."""
    peer = np.delete(np.arange(rank_size), root)
    rounds = [Round(root, peer, 0, 0)] if rank_size > 1 else []
    return Schedule("broadcast", rank_size, 1, rounds, root)


def reduce(rank_size: int, root: int) -> Schedule:
    """Receive everyone's buffer at once, and add them by rank."""
    return mirrored(broadcast(rank_size, root))


def all_reduce(rank_size: int) -> Schedule:
    """Reduce at rank 0, which sends the sum to everyone."""
    rounds = then(reduce(rank_size, 0).rounds, broadcast(rank_size, 0).rounds)
    return Schedule("all_reduce", rank_size, 1, rounds)
