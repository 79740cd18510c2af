"""NHR: nonuniform hierarchical ring; ceil(log p) steps at any p, in messages of whole runs.

For p ranks and n bytes (hccl.md 4.2, 4.4), S = ceil(log p); every rank sends p-1 slices a phase:

| collective              | steps | cost                                                |
|-------------------------|-------|-----------------------------------------------------|
| reduce_scatter          | S     | S alpha + (p-1)/p n (beta + gamma)                  |
| all_gather              | S     | S alpha + (p-1)/p n beta                            |
| scatter, gather         | S     | S alpha + (p-1)/p n beta                            |
| all_reduce              | 2S    | 2S alpha + 2(p-1)/p n beta + (p-1)/p n gamma        |
| broadcast               | 2S    | 2S alpha + 2(p-1)/p n beta, scatter then all_gather |
| all_reduce, `one_shot`  | 2S    | 2S (alpha + n beta) + S n gamma, a binomial tree    |
| broadcast, `one_shot`   | S     | S (alpha + n beta), a binomial tree                 |

(The tree's all_reduce is an alpha shorter at some other p: its last level need not wait.)

all_reduce and broadcast number their slices so that those of one step lie together in memory.
The scatter leaves out the slices that the vendor's sends without need (one at p = 7).
"""

import numpy as np

from hcom.algorithms import nb
from hcom.algorithms.tree import binomial
from hcom.schedule import Round, Rounds, Schedule, mirrored, on, relabelled, rooted, sparing, then
from hcom.schedule.value import IntArray


def reduce_scatter(rank_size: int) -> Schedule:
    """In step s send to rank r-D, D = 2^s, the slices r-D, r-3D, r-5D, ..., to be added."""
    rank = np.arange(rank_size)[:, None]

    def step(s: int) -> Round:
        distance = 1 << s
        peer = (rank - distance) % rank_size
        terms = np.arange((rank_size - 1 + distance) // (2 * distance))
        chunk = (peer - 2 * distance * terms) % rank_size
        return Round(rank, peer, chunk, chunk, reduce=True)

    return Schedule("reduce_scatter", rank_size, rank_size, Rounds(nb.steps(rank_size), step))


def all_gather(rank_size: int) -> Schedule:
    """Run the reduce_scatter backwards: distances fall, slices r, r-2D, r-4D, ... go to r+D."""
    return mirrored(reduce_scatter(rank_size))


def slice_order(rank_size: int) -> IntArray:
    """Give each slice its place in memory: even ones first, again within the halves, and so on."""
    order, part = np.arange(rank_size), rank_size
    while part > 2:
        halves = [order[i : i + part] for i in range(0, rank_size, part)]
        order = np.concatenate([h for half in halves for h in (half[::2], half[1::2])])
        part = part // 2 if part % 2 == 0 else 0  # halves of unequal length stay as they are
    return np.argsort(order)


def _ordered(collective: str, rounds: Rounds, rank_size: int, root: int = 0) -> Schedule:
    plain = Schedule(collective, rank_size, rank_size, rounds, root)
    rounds = on(plain, np.arange(rank_size), slice_order(rank_size))
    return Schedule(collective, rank_size, rank_size, rounds, root)


def all_reduce(rank_size: int, *, one_shot: bool = False) -> Schedule:
    """Reduce and scatter, then gather; or, for small data, a binomial tree up and down."""
    if one_shot:
        down = Schedule("broadcast", rank_size, 1, binomial(rank_size))
        return Schedule("all_reduce", rank_size, 1, then(mirrored(down).rounds, down.rounds))
    rounds = then(reduce_scatter(rank_size).rounds, all_gather(rank_size).rounds)
    return _ordered("all_reduce", rounds, rank_size)


def scatter(rank_size: int, root: int) -> Schedule:
    """Scatter as NB does, with ranks counted downwards from the root."""
    return relabelled(nb.scatter(rank_size, 0), (root - np.arange(rank_size)) % rank_size)


def gather(rank_size: int, root: int) -> Schedule:
    """Run the scatter backwards."""
    return mirrored(scatter(rank_size, root))


def broadcast(rank_size: int, root: int, *, one_shot: bool = False) -> Schedule:
    """Scatter, then gather everywhere but at the root; or, for small data, a binomial tree."""
    if one_shot:
        return rooted(Schedule("broadcast", rank_size, 1, binomial(rank_size)), root)
    spread = sparing(all_gather(rank_size).rounds, root)
    rounds = then(scatter(rank_size, root).rounds, spread)
    return _ordered("broadcast", rounds, rank_size, root)
