"""Pipeline: a ring between servers and a mesh inside them, both at work in every step.

For S servers of L ranks (`intra_group_size`, by default the largest divisor of p up to its square
root), p = S L, and blocks of b = n/p bytes (hccl.md 4.2, 4.4 "Pipeline"):

| collective     | steps | cost                                                               |
|----------------|-------|--------------------------------------------------------------------|
| all_gather     | S     | (S-1) max(alpha_inter + b beta_inter, alpha_intra + b beta_intra)  |
|                |       | + alpha_intra + b beta_intra                                       |
| reduce_scatter | S     | the same with L b gamma in all but one step                        |
| all_reduce     | 2S    | both                                                               |

Busiest rank: p-1 blocks a phase. With one rank a server there are S-1 steps, a plain ring.
"""

import numpy as np

from hcom.algorithms.hierarchical import group_size
from hcom.schedule import Round, Rounds, Schedule, mirrored, then


def all_gather(rank_size: int, *, intra_group_size: int | None = None) -> Schedule:
    """In step k spread the block that came in step k-1 inside the server, and pass it on."""
    size = group_size(rank_size, intra_group_size)
    servers = rank_size // size
    rank = np.arange(rank_size)[:, None]
    server, number = rank // size, rank % size
    inside = server * size + (number + np.arange(1, size)) % size
    following = (rank + size) % rank_size

    def step(k: int) -> Round:
        chunk = (server - k) % servers * size + number
        peers = np.hstack([inside, following]) if k < servers - 1 else inside
        return Round(rank, peers, chunk, chunk)

    return Schedule(
        "all_gather", rank_size, rank_size, Rounds(servers if size > 1 else servers - 1, step)
    )


def reduce_scatter(rank_size: int, *, intra_group_size: int | None = None) -> Schedule:
    """Run the all_gather backwards."""
    return mirrored(all_gather(rank_size, intra_group_size=intra_group_size))


def all_reduce(rank_size: int, *, intra_group_size: int | None = None) -> Schedule:
    """Reduce and scatter, then gather."""
    gathered = all_gather(rank_size, intra_group_size=intra_group_size)
    rounds = then(mirrored(gathered).rounds, gathered.rounds)
    return Schedule("all_reduce", rank_size, rank_size, rounds)
