"""Pairwise: an all_to_all in which every rank sends one message and receives one in each step.

For p ranks, n(i, j) bytes from rank i to rank j (hccl.md 4.2, 4.4): p-1 steps,
(p-1) alpha + beta * sum over k = 1..p-1 of the largest n(i, i+k). With equal blocks of n/p bytes
that is (p-1) alpha + (p-1)/p n beta. No link or port is ever shared.
"""

import numpy as np

from hcom.schedule import Round, Rounds, Schedule, together


def all_to_all(rank_size: int) -> Schedule:
    """In step i send to rank r+i and receive from r-i; the own block moves in the first step."""
    rank = np.arange(rank_size)

    def step(i: int) -> Round:
        peer = (rank + i) % rank_size
        return Round(rank, peer, peer, rank_size + rank)

    rounds = together(Rounds.of([step(0)]), Rounds(rank_size - 1, lambda i: step(i + 1)))
    return Schedule("all_to_all", rank_size, 2 * rank_size, rounds)
