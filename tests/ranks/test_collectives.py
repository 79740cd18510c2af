"""Every collective on real ranks, against numpy and, bit for bit, against the schedule's oracle."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from pairwise import pairwise

from hcom.algorithms import algorithms, build
from hcom.schedule import evaluate

pytestmark = pytest.mark.usefixtures("hcom_world")

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int32, np.uint64]
COUNTS = [0, 1, 5, 64, 1000, 65_537]
SENTINEL = 77
MARGIN = 16
# Every two of these meet in some call; every three in the nightly tests.
SUMS = {"dtype": TYPES, "algorithm": [None, *algorithms("all_reduce")], "count": COUNTS}
BITS = {
    "dtype": TYPES,
    "algorithm": algorithms("all_reduce"),
    "op": ["sum", "prod", "max", "min"],
}
GATHERS = {
    "dtype": [np.float32, np.int8, np.bool_],
    "algorithm": [None, *algorithms("all_gather")],
    "count": COUNTS,
}
SCATTERS = {
    "dtype": [np.float32, np.int32],
    "algorithm": [None, *algorithms("reduce_scatter")],
    "count": COUNTS,
}


def every_three(factors):
    return [dict(zip(factors, row, strict=True)) for row in itertools.product(*factors.values())]


def values(rank, count, dtype, seed=0):
    """Whole numbers from -3 (0 where there is no sign) to 3."""
    lowest = 0 if np.dtype(dtype).kind == "u" else -3
    return np.random.default_rng([seed, rank, count]).integers(lowest, 4, count).astype(dtype)


def everyone(hcom, count, dtype, seed=0):
    return [values(rank, count, dtype, seed) for rank in range(hcom.rank_size())]


def wrong_rows(rows, is_right):
    """Make all calls, even after a wrong one: the other ranks make them too."""
    return [row for row in rows if not is_right(**row)]


def assert_sums_right(hcom, rows):
    def is_right(dtype, algorithm, count):
        inputs = everyone(hcom, count, dtype)
        whole = np.full(count + 2 * MARGIN, SENTINEL, dtype)
        out = whole[MARGIN : MARGIN + count]
        assert hcom.all_reduce(inputs[hcom.rank()], out=out, algorithm=algorithm) is out
        # Small whole numbers: every order of additions is exact.
        right = np.array_equal(out, np.sum([x.astype(np.float64) for x in inputs], axis=0))
        margins = np.delete(whole, slice(MARGIN, MARGIN + count))
        return right and (margins == SENTINEL).all()

    assert wrong_rows(rows, is_right) == []


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_all_reduce_adds_over_the_ranks(hcom_world, dtype):
    assert_sums_right(hcom_world, [row for row in pairwise(SUMS) if row["dtype"] is dtype])


@pytest.mark.nightly
def test_all_reduce_adds_with_every_type_algorithm_and_count(hcom_world):
    assert_sums_right(hcom_world, every_three(SUMS))


def assert_bits_right(hcom, rows):
    rank, size = hcom.rank(), hcom.rank_size()
    rng = np.random.default_rng(5)
    numbers = rng.standard_normal((size, 1000)) * 3

    def is_right(dtype, algorithm, op):
        with np.errstate(invalid="ignore"):  # negative numbers as unsigned: any bits will do
            inputs = list(numbers.astype(dtype))
        expected = evaluate(build("all_reduce", algorithm, size), inputs, op=op)[rank]
        result = hcom.all_reduce(inputs[rank], op, algorithm=algorithm)
        return result.tobytes() == np.asarray(expected, dtype).tobytes()

    assert wrong_rows(rows, is_right) == []


def test_all_reduce_gives_the_bits_of_the_oracle(hcom_world):
    assert_bits_right(hcom_world, pairwise(BITS))


@pytest.mark.nightly
def test_all_reduce_gives_the_oracles_bits_with_every_type_algorithm_and_operation(hcom_world):
    assert_bits_right(hcom_world, every_three(BITS))


@pytest.mark.parametrize(
    "rows",
    [pairwise(GATHERS), pytest.param(every_three(GATHERS), marks=pytest.mark.nightly)],
    ids=["pairs", "all"],
)
def test_all_gather_joins_blocks_in_the_order_of_ranks(hcom_world, rows):
    hcom = hcom_world

    def is_right(dtype, algorithm, count):
        inputs = everyone(hcom, count, dtype)
        result = hcom.all_gather(inputs[hcom.rank()], algorithm=algorithm)
        return np.array_equal(result, np.concatenate(inputs))

    assert wrong_rows(rows, is_right) == []


@pytest.mark.parametrize(
    "rows",
    [pairwise(SCATTERS), pytest.param(every_three(SCATTERS), marks=pytest.mark.nightly)],
    ids=["pairs", "all"],
)
def test_reduce_scatter_gives_each_rank_its_block_of_the_sum(hcom_world, rows):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()

    def is_right(dtype, algorithm, count):
        inputs = everyone(hcom, count * size, dtype)
        result = hcom.reduce_scatter(inputs[rank], algorithm=algorithm)
        return np.array_equal(result, sum(inputs)[rank * count : (rank + 1) * count])

    assert wrong_rows(rows, is_right) == []


def test_all_to_all_transposes_blocks(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()

    def is_right(algorithm, count):
        mine = np.array([np.full(count, 100 * rank + peer) for peer in range(size)])
        result = hcom.all_to_all(mine, algorithm=algorithm)
        return np.array_equal(result, [np.full(count, 100 * peer + rank) for peer in range(size)])

    factors = {"algorithm": [None, *algorithms("all_to_all")], "count": COUNTS}
    assert wrong_rows(every_three(factors), is_right) == []


def test_rooted_collectives_work_for_every_root(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    for root, count in itertools.product(range(size), COUNTS):
        inputs = everyone(hcom, count, np.float32)
        mine = inputs[rank]
        assert np.array_equal(hcom.broadcast(mine, root), inputs[root])
        reduced, gathered = hcom.reduce(mine, root), hcom.gather(mine, root)
        if rank == root:
            assert np.array_equal(reduced, sum(inputs))
            assert np.array_equal(gathered, np.concatenate(inputs))
        else:
            assert reduced is None
            assert gathered is None
        assert np.array_equal(mine, values(rank, count, np.float32))
        blocks = np.stack(inputs) if rank == root else None
        assert np.array_equal(hcom.scatter(blocks, root), [mine])


def test_every_rooted_algorithm_runs(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    inputs = everyone(hcom, 1000, np.float32)
    expected = {
        "broadcast": inputs,
        "reduce": [sum(inputs)] * size,
        "gather": [np.concatenate(inputs)] * size,
        "scatter": [inputs[rank][None]] * size,
    }

    def is_right(name, algorithm, root):
        x = inputs[rank]
        if name == "scatter":
            x = np.stack(inputs) if rank == root else None
        result = getattr(hcom, name)(x, root, algorithm=algorithm)
        if name in ("reduce", "gather") and rank != root:
            return result is None
        return np.array_equal(result, expected[name][root])

    rows = [
        {"name": name, "algorithm": algorithm, "root": root}
        for name in expected
        for algorithm in algorithms(name)
        for root in sorted({0, size - 1})
    ]
    assert wrong_rows(rows, is_right) == []


def test_a_call_in_place_overwrites_its_input_and_no_other_call_does(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    for count in COUNTS:
        inputs = everyone(hcom, count, np.float32)
        mine, before = inputs[rank].copy(), inputs[rank].copy()
        hcom.all_reduce(mine)
        assert np.array_equal(mine, before)
        assert hcom.all_reduce(mine, out=mine) is mine
        assert np.array_equal(mine, sum(inputs))
        mine = before.copy()
        hcom.broadcast(mine, 0, out=mine)
        assert np.array_equal(mine, inputs[0])


def test_strided_and_scalar_arrays_travel_like_their_contiguous_copies(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    grid = np.arange(24.0).reshape(4, 6) + 100 * rank
    column_sum = sum(np.arange(24.0).reshape(4, 6)[:, 1] + 100 * r for r in range(size))
    assert np.array_equal(hcom.all_reduce(grid[:, 1]), column_sum)
    gathered = hcom.all_gather(grid.T)
    assert np.array_equal(gathered[6 * rank : 6 * rank + 6], grid.T)
    target = np.full((4, 3), SENTINEL, np.float64)
    hcom.all_reduce(grid[:, 1], out=target[:, 1])
    assert np.array_equal(target[:, 1], column_sum)
    assert (target[:, [0, 2]] == SENTINEL).all()
    stride_0 = np.broadcast_to(1.0, (2 * size, 3))
    assert np.array_equal(hcom.reduce_scatter(stride_0), np.full((2, 3), float(size)))
    scalar = hcom.all_reduce(np.array(3.5))
    assert scalar.shape == ()
    assert scalar == 3.5 * size


def test_avg_divides_by_the_number_of_ranks(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    x = np.full(4, rank, np.float32)
    assert np.array_equal(hcom.all_reduce(x, "avg"), np.full(4, (size - 1) / 2, np.float32))


def test_bool_sums_stay_bool(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    x = np.array([False, True, rank == 0, rank == size - 1])
    assert hcom.all_reduce(x).tolist() == [False, True, True, True]
    assert hcom.all_reduce(x, "prod").tolist() == [False, True, size == 1, size == 1]


def test_large_arrays_pass_through_small_slots(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    count = 3_000_001
    x = np.arange(count, dtype=np.float32) % 1000 + rank
    expected = (np.arange(count, dtype=np.float32) % 1000) * size + size * (size - 1) / 2
    for algorithm in algorithms("all_reduce"):
        assert np.array_equal(hcom.all_reduce(x, algorithm=algorithm), expected), algorithm


def test_many_calls_of_mixed_shapes_keep_their_order(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    rng = np.random.default_rng(9)
    for number in range(300):
        count, call = int(rng.integers(0, 3000)), int(rng.integers(0, 4))
        x = np.full(count, rank + number)
        if call == 0:
            assert (hcom.all_reduce(x) == size * number + size * (size - 1) // 2).all()
        elif call == 1:
            root = number % size
            assert (hcom.broadcast(x, root) == root + number).all()
        elif call == 2:
            assert (hcom.all_gather(x).reshape(size, -1).T == np.arange(size) + number).all()
        else:
            hcom.barrier()


def test_a_users_schedule_runs_from_a_value_and_from_a_file(hcom_world, tmp_path):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    schedule = build("all_reduce", "ring", size)
    file = tmp_path / "mine.txt"
    file.write_text(str(schedule))
    x = np.full(1000, rank + 1.0)
    for algorithm in (schedule, f"file:{file}"):
        assert (hcom.all_reduce(x, algorithm=algorithm) == size * (size + 1) / 2).all()


@pytest.mark.ranks(2, 4)
def test_a_users_wrong_schedule_is_refused_before_anything_is_sent(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    ring = build("all_reduce", "ring", size)
    broken = type(ring)("all_reduce", size, ring.num_chunks, list(ring.rounds)[:-1])
    with pytest.raises(ValueError, match="all_reduce"):
        hcom.all_reduce(np.ones(10), algorithm=broken)
    with pytest.raises(ValueError, match="rank_size"):
        hcom.all_reduce(np.ones(10), algorithm=build("all_reduce", "ring", size + 1))
    assert hcom.all_reduce(np.ones(1)).item() == size
