"""The frame of the multi-rank tests itself."""

import pytest
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def test_every_rank_runs_every_test():
    assert WORLD.allgather(WORLD.rank) == list(range(WORLD.size))


@pytest.mark.ranks(2, 4)
def test_a_test_for_two_or_four_ranks_runs_with_no_other_number():
    assert WORLD.size in (2, 4)
