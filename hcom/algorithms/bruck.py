"""Bruck: an all_to_all in log p steps, each block travelling the bits of its distance.

For p ranks and n bytes a rank (Bruck et al., IEEE TPDS 8(11), 1997, section 3): ceil(log p)
steps, ceil(log p) alpha + (n/p) beta * sum over s of b(s), where b(s) is how many of the numbers
1..p-1 have bit s set; at powers of two (n/2) log p beta. For small data.

The paper rotates blocks in memory before and after; here the first hop reads the input block
where it is, the last writes the output block where it belongs, and only blocks between two hops
wait in scratch: one position a distance.
"""

import numpy as np

from hcom.schedule import Round, Rounds, Schedule, together


def all_to_all(rank_size: int) -> Schedule:
    """In step s send to rank r + 2^s all blocks whose distance has bit s; the own one stays."""
    p = rank_size
    rank, every = np.arange(p)[:, None], np.arange(1, p)
    scratch = 2 * p  # the position of distance 0, which never waits

    def step(s: int) -> Round:
        distance = every[every >> s & 1 == 1]
        peer = (rank + (1 << s)) % p
        first, last = distance % (1 << s) == 0, distance >> s == 1
        here = np.where(first, (rank + distance) % p, scratch + distance)
        there = np.where(last, p + (peer - distance) % p, scratch + distance)
        return Round(rank, peer, here, there)

    own = Round(rank, rank, rank, p + rank)
    rounds = together(Rounds.of([own]), Rounds((p - 1).bit_length(), step))
    return Schedule("all_to_all", p, 2 * p, rounds, num_scratch=p if p > 1 else 0)
