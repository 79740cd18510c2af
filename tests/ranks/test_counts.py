"""Collectives whose counts differ between ranks."""

import numpy as np
import pytest

from hcom.algorithms import algorithms

pytestmark = pytest.mark.usefixtures("hcom_world")


def counts_of(size, seed):
    """Counts with zeros and large ones among them, equal on all ranks."""
    choices = [0, 1, 3, 17, 1000, 70_000]
    return [choices[(3 * rank * rank + rank + seed) % len(choices)] for rank in range(size)]


@pytest.mark.parametrize("algorithm", [None, *algorithms("all_gather")])
def test_all_gather_v_joins_blocks_of_different_lengths(hcom_world, algorithm):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    for seed in range(4):
        counts = counts_of(size, seed)
        x = np.full((counts[rank], 2), rank, np.int32)
        result = hcom.all_gather_v(x, counts, algorithm=algorithm)
        assert result.shape == (sum(counts), 2)
        assert np.array_equal(result[:, 0], np.repeat(np.arange(size), counts))


@pytest.mark.parametrize("algorithm", [None, *algorithms("reduce_scatter")])
def test_reduce_scatter_v_gives_each_rank_its_rows(hcom_world, algorithm):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    for seed in range(4):
        counts = counts_of(size, seed)
        x = np.arange(sum(counts), dtype=np.float64) * (rank + 1)
        start = sum(counts[:rank])
        expected = np.arange(start, start + counts[rank]) * (size * (size + 1) / 2)
        assert np.array_equal(hcom.reduce_scatter_v(x, counts, algorithm=algorithm), expected)


@pytest.mark.parametrize("algorithm", [None, *algorithms("all_to_all")])
@pytest.mark.parametrize("call", ["all_to_all_v", "all_to_all_vc"])
def test_all_to_all_v_exchanges_blocks_of_any_length(hcom_world, algorithm, call):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    for seed in range(4):
        matrix = [counts_of(size, seed + sender) for sender in range(size)]
        sends, receives = matrix[rank], [row[rank] for row in matrix]
        x = np.repeat(100 * rank + np.arange(size), sends)
        known = (sends, receives) if call == "all_to_all_v" else (matrix,)
        result = getattr(hcom, call)(x, *known, algorithm=algorithm)
        assert np.array_equal(result, np.repeat(100 * np.arange(size) + rank, receives))


@pytest.mark.ranks(2)
def test_a_rank_may_send_nothing(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    x = np.arange(24.0).reshape(2, 3, 4) if rank == 0 else np.zeros((0, 3, 4))
    result = hcom.all_to_all_v(x, [1, 1] if rank == 0 else [0, 0], [1, 0])
    assert np.array_equal(result, np.arange(24.0).reshape(2, 3, 4)[rank : rank + 1])


@pytest.mark.ranks(2, 4)
def test_counts_that_differ_name_the_pair_on_every_rank_and_leave_the_group_usable(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    sends, receives = [0] * size, [0] * size
    if rank == size - 1:
        receives[0] = 16
    with pytest.raises(hcom.MismatchError) as caught:
        hcom.all_to_all_v(np.zeros(0), sends, receives)
    caught.match(rf"rank 0 sends 0 rows to rank {size - 1}, which receives 16")
    assert hcom.all_reduce(np.ones(1)).item() == size


@pytest.mark.ranks(2, 4)
def test_a_transposed_matrix_is_a_mismatch(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    group = hcom.new_group(range(size))
    matrix = np.arange(size * size).reshape(size, size)
    mine = matrix.T if rank == 0 else matrix
    with pytest.raises(hcom.MismatchError, match="all_to_all"):
        group.all_to_all_vc(np.zeros(mine[rank].sum()), mine)


def test_wrong_counts_are_refused_before_anything_is_sent(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    x, ones = np.zeros(size), [1] * size
    for wrong, error in (
        (lambda: hcom.all_gather_v(x[:1], [1] * (size + 1)), "counts has"),
        (lambda: hcom.all_gather_v(x[:1], [2] * size), rf"counts\[{rank}\] is 2, but x of rank"),
        (lambda: hcom.reduce_scatter_v(np.zeros(size + 1), ones), "counts says"),
        (lambda: hcom.all_to_all_v(x, [-1] * size, ones), r"send_counts\[0\] must not be negative"),
        (lambda: hcom.all_to_all_v(np.zeros(size + 1), ones, ones), "send_counts says"),
        (lambda: hcom.all_to_all_vc(x, [ones] * (size + 1)), "matrix has"),
    ):
        with pytest.raises(ValueError, match=error):
            wrong()
    assert hcom.all_reduce(np.ones(1)).item() == size
