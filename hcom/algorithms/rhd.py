"""RHD: recursive halving and doubling (H-D_R); log p steps, best at powers of two.

For p ranks and n bytes, k = floor(log p), q = 2^k (hccl.md 4.2, 4.4; Thakur, Rabenseifner and
Gropp, IJHPCA 19(1), 2005). Other p: the first 2(p-q) ranks form pairs, of which the odd rank hands
its data to the even one and waits for the result.

| collective             | steps     | cost                                                     |
|------------------------|-----------|----------------------------------------------------------|
| reduce_scatter, p = q  | k         | k alpha + (p-1)/p n (beta + gamma)                       |
| all_gather, p = q      | k         | k alpha + (p-1)/p n beta                                 |
| all_reduce, p = q      | 2k        | 2k alpha + 2(p-1)/p n beta + (p-1)/p n gamma             |
| reduce, p = q          | 2k        | as all_reduce                                            |
| reduce_scatter, other p | k+2      | alpha + n (beta + gamma), halving, alpha + (n/p) beta    |
| all_gather, other p    | k+2       | alpha + (n/p) beta, doubling, alpha + (p-1)/p n beta     |
| all_reduce, other p    | 2k+2      | that of q ranks + 2 (alpha + n beta) + n gamma           |
| reduce, other p        | 2k+1      | that of q ranks + alpha + n (beta + gamma)               |
| broadcast              | ceil(log p) | ceil(log p)(alpha + n beta), a binomial tree           |

Halving among other p moves at most m + min(p-q, m) slices in step i, m = q/2^i; doubling the same
backwards. In all_gather the odd rank keeps its own slice; the vendor sends it back with the rest.
"""

import numpy as np

from hcom.algorithms.tree import binomial
from hcom.schedule import Round, Rounds, Schedule, rooted, then
from hcom.schedule.value import IntArray


def _heads(rank_size: int) -> tuple[IntArray, IntArray]:
    """Give the rank that stands for each of the q blocks, and the odd ranks of the pairs."""
    q = 1 << (rank_size.bit_length() - 1)
    extra = rank_size - q
    block = np.arange(q)
    return block + np.minimum(block, extra), 2 * np.arange(extra) + 1


def _halving(heads: IntArray, border: IntArray) -> Rounds:
    """Reduce and scatter: keep the half of the blocks that the own one is in, send the other."""
    q = len(heads)
    block = np.arange(q)

    def step(s: int) -> Round:
        half = q >> (s + 1)
        peer = block ^ half
        low = peer & -half
        first = border[low]
        return Round(heads, heads[peer], first, first, True, border[low + half] - first)

    return Rounds(q.bit_length() - 1, step)


def _doubling(heads: IntArray, border: IntArray) -> Rounds:
    """Gather everywhere: exchange all blocks held with a peer at distance 1, 2, 4, ..."""
    block = np.arange(len(heads))

    def step(s: int) -> Round:
        held = 1 << s
        low = block & -held
        first = border[low]
        return Round(heads, heads[block ^ held], first, first, False, border[low + held] - first)

    return Rounds(len(heads).bit_length() - 1, step)


def _round(src: IntArray, dst: IntArray, chunk: IntArray, reduce: bool, count: int) -> Rounds:
    """Give one round between the members of the pairs, or none where there are no pairs."""
    return Rounds.of([Round(src, dst, chunk, chunk, reduce, count)] if len(src) else [])


def reduce_scatter(rank_size: int) -> Schedule:
    """Fold the pairs, halve, and hand the odd ranks their slices."""
    heads, odd = _heads(rank_size)
    rounds = then(
        _round(odd, odd - 1, 0 * odd, True, rank_size),
        _halving(heads, np.append(heads, rank_size)),
        _round(odd - 1, odd, odd, False, 1),
    )
    return Schedule("reduce_scatter", rank_size, rank_size, rounds)


def all_gather(rank_size: int) -> Schedule:
    """Take the odd ranks' slices in, double, and send the odd ranks all others' slices."""
    heads, odd = _heads(rank_size)
    pair = odd[:, None] - np.array([1, 1]), odd[:, None]
    first = np.stack([0 * odd, odd + 1], axis=1)
    rest = Round(*pair, first, first, False, np.stack([odd, rank_size - odd - 1], axis=1))
    rounds = then(
        _round(odd, odd - 1, odd, False, 1),
        _doubling(heads, np.append(heads, rank_size)),
        Rounds.of([rest] if len(odd) else []),
    )
    return Schedule("all_gather", rank_size, rank_size, rounds)


def all_reduce(rank_size: int) -> Schedule:
    """Fold the pairs, halve and double among q ranks, and hand the odd ranks the result."""
    heads, odd = _heads(rank_size)
    q = len(heads)
    border = np.arange(q + 1)
    rounds = then(
        _round(odd, odd - 1, 0 * odd, True, q),
        _halving(heads, border),
        _doubling(heads, border),
        _round(odd - 1, odd, 0 * odd, False, q),
    )
    return Schedule("all_reduce", rank_size, q, rounds)


def reduce(rank_size: int, root: int) -> Schedule:
    """Fold the pairs towards the root, halve, and gather the q slices at the root."""
    heads, odd = _heads(rank_size)
    q = len(heads)

    def collect(s: int) -> Round:
        held = 1 << s
        block = np.arange(held, q, 2 * held)
        return Round(heads[block], heads[block - held], block, block, False, held)

    rounds = then(
        _round(odd, odd - 1, 0 * odd, True, q),
        _halving(heads, np.arange(q + 1)),
        Rounds(q.bit_length() - 1, collect),
    )
    return rooted(Schedule("reduce", rank_size, q, rounds), root)


def broadcast(rank_size: int, root: int) -> Schedule:
    """Send the whole buffer along a binomial tree."""
    return rooted(Schedule("broadcast", rank_size, 1, binomial(rank_size)), root)
