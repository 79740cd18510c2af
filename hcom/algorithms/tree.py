"""Tree: the double binary tree; every rank is a leaf in one of two trees, half the data in each.

For p ranks, n bytes and s slices (Sanders, Speck and Traeff, Parallel Computing 35(12), 2009; the
in-order tree is NCCL's). With D = ceil(log p):

| collective | steps        | busiest rank sends | links of their own, s = 1           |
|------------|--------------|--------------------|-------------------------------------|
| broadcast  | D + s - 1    | n                  | D (alpha + n/2 beta), p > 2         |
| reduce     | D + s - 1    | n                  | the same, + at most D n gamma       |
| all_reduce | 2D + s - 1   | 2n (p > 3)         | broadcast + reduce                  |

A parent of two children reduces both. In s slices a step moves n/(2s) bytes a message, and the
data flows: levels work at the same time, and so do the two directions. The root of a rooted
collective, and rank 0 in all_reduce, stands above both trees.
"""

import numpy as np

from hcom.schedule import Round, Rounds, Schedule, mirrored, rooted, then, together
from hcom.schedule.value import IntArray


def binomial(rank_size: int) -> Rounds:
    """Broadcast one chunk from rank 0: in ceil(log p) rounds, at distances p/2, ..., 2, 1."""
    steps = (rank_size - 1).bit_length()

    def step(i: int) -> Round:
        distance = 1 << (steps - 1 - i)
        rank = np.arange(0, rank_size - distance, 2 * distance)
        return Round(rank, rank + distance, 0, 0)

    return Rounds(steps, step)


def _parents(nodes: int) -> IntArray:
    """Give the parents of nodes 1 to `nodes` in an in-order tree; the top's parent is 0."""
    node = np.arange(1, nodes + 1)
    low = node & -node
    parent = node ^ low | low << 1
    return np.where(parent > nodes, node ^ low, parent)


def _descent(rank_of: IntArray, chunk: int) -> Rounds:
    """Send one chunk down the tree, a level a round; label i of the tree is rank `rank_of[i]`."""
    parent = np.concatenate([[0], _parents(len(rank_of) - 1)])
    depth, above = np.zeros(len(parent), np.int64), np.arange(len(parent))
    while above.any():
        depth += above > 0
        above = parent[above]

    def step(i: int) -> Round:
        child = np.flatnonzero(depth == i + 1)
        return Round(rank_of[parent[child]], rank_of[child], chunk, chunk)

    return Rounds(int(depth.max()), step)


def broadcast(rank_size: int, root: int) -> Schedule:
    """Send each half down its tree."""
    rank = np.arange(rank_size)
    nodes = rank_size - 1
    # The leaves are the odd labels; the second tree gives (nearly) every rank the other parity.
    turned = nodes + 1 - rank[1:] if nodes % 2 == 0 else rank[1:] % nodes + 1
    other = np.concatenate([[0], 1 + np.argsort(turned)])
    rounds = together(_descent(rank, 0), _descent(other, 1))
    return rooted(Schedule("broadcast", rank_size, 2, rounds), root)


def reduce(rank_size: int, root: int) -> Schedule:
    """Climb both trees, adding at every parent."""
    return mirrored(broadcast(rank_size, root))


def all_reduce(rank_size: int) -> Schedule:
    """Climb both trees, then descend them; slices of the two directions overlap."""
    rounds = then(reduce(rank_size, 0).rounds, broadcast(rank_size, 0).rounds)
    return Schedule("all_reduce", rank_size, 2, rounds)
