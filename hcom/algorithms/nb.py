"""NB: nonuniform Bruck; ceil(log p) steps at any p, at distances 1, 2, 4, ...

For p ranks and n bytes (hccl.md 4.2, 4.4), S = ceil(log p); every rank sends p-1 slices a phase:

| collective       | steps | cost                                                 |
|------------------|-------|------------------------------------------------------|
| reduce_scatter   | S     | S alpha + (p-1)/p n (beta + gamma)                   |
| all_gather       | S     | S alpha + (p-1)/p n beta                             |
| scatter, gather  | S     | S alpha + (p-1)/p n beta                             |
| all_reduce       | 2S    | 2S alpha + 2(p-1)/p n beta + (p-1)/p n gamma         |
| broadcast        | 2S    | 2S alpha + 2(p-1)/p n beta, scatter then all_gather  |
"""

import numpy as np

from hcom.schedule import Round, Rounds, Schedule, mirrored, rooted, sparing, then


def steps(rank_size: int) -> int:
    """Give ceil(log2 p)."""
    return (rank_size - 1).bit_length()


def reduce_scatter(rank_size: int) -> Schedule:
    """In step s send to rank r+D, D = 2^s, the slices r+D, r+3D, r+5D, ..., to be added."""
    rank = np.arange(rank_size)[:, None]

    def step(s: int) -> Round:
        distance = 1 << s
        peer = (rank + distance) % rank_size
        terms = np.arange((rank_size - 1 + distance) // (2 * distance))
        chunk = (peer + 2 * distance * terms) % rank_size
        return Round(rank, peer, chunk, chunk, reduce=True)

    return Schedule("reduce_scatter", rank_size, rank_size, Rounds(steps(rank_size), step))


def all_gather(rank_size: int) -> Schedule:
    """In step s send to rank r+D, D = 2^s, the D slices held (in the last step those lacking)."""
    rank = np.arange(rank_size)[:, None]

    def step(s: int) -> Round:
        distance = 1 << s
        chunk = (rank - np.arange(min(distance, rank_size - distance))) % rank_size
        return Round(rank, (rank + distance) % rank_size, chunk, chunk)

    return Schedule("all_gather", rank_size, rank_size, Rounds(steps(rank_size), step))


def all_reduce(rank_size: int) -> Schedule:
    """Reduce and scatter, then gather."""
    rounds = then(reduce_scatter(rank_size).rounds, all_gather(rank_size).rounds)
    return Schedule("all_reduce", rank_size, rank_size, rounds)


def scatter(rank_size: int, root: int) -> Schedule:
    """In step s the first D = 2^s ranks from the root send every second slice they hold D on."""

    def step(s: int) -> Round:
        distance = 1 << s
        rank = np.arange(min(distance, rank_size - distance))[:, None]
        chunk = rank + np.arange(distance, rank_size, 2 * distance)
        passed = Round(rank, rank + distance, chunk, chunk)
        return passed.where(chunk < rank_size)

    rounds = Rounds(steps(rank_size), step)
    return rooted(Schedule("scatter", rank_size, rank_size, rounds), root)


def gather(rank_size: int, root: int) -> Schedule:
    """Run the scatter backwards."""
    return mirrored(scatter(rank_size, root))


def broadcast(rank_size: int, root: int) -> Schedule:
    """Scatter the buffer, then gather the parts everywhere but at the root, which has them."""
    spread = sparing(all_gather(rank_size).rounds, root)
    rounds = then(scatter(rank_size, root).rounds, spread)
    return Schedule("broadcast", rank_size, rank_size, rounds, root)
