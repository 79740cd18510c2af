"""The oracle: right sums, in the order that is promised, with one rounding a round."""

import ast

import ml_dtypes
import numpy as np
import pytest

from hcom.algorithms import build
from hcom.schedule import Schedule, Transfer, evaluate, symbols


def integers(*shape):
    return np.random.default_rng(0).integers(-1000, 1000, shape)


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
@pytest.mark.parametrize(
    ("op", "fold"), [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)]
)
def test_all_reduce_is_the_fold_of_all_inputs(size, op, fold):
    x = integers(5, size)
    for y in evaluate(build("all_reduce", "ring", 5), list(x), op):
        np.testing.assert_array_equal(y, fold(x, axis=0))


def test_avg_divides_the_sum():
    x = integers(4, 100).astype(np.float64)
    for y in evaluate(build("all_reduce", "mesh", 4), list(x), "avg"):
        np.testing.assert_array_equal(y, x.sum(axis=0) / 4)


def test_blocks_go_where_they_belong():
    x, p = integers(3, 3, 7), 3
    flat = list(x.reshape(3, -1))
    gathered = evaluate(build("all_gather", "ring", p), flat)
    reduced = evaluate(build("reduce_scatter", "mesh", p), flat)
    exchanged = evaluate(build("all_to_all", "mesh", p), flat)
    for rank in range(p):
        np.testing.assert_array_equal(gathered[rank], x.ravel())
        np.testing.assert_array_equal(reduced[rank], x.sum(axis=0)[rank])
        np.testing.assert_array_equal(exchanged[rank], x[:, rank].ravel())


@pytest.mark.parametrize("root", [0, 2])
def test_rooted_collectives_leave_other_ranks_empty(root):
    x, nothing = integers(3, 6), np.empty(0)
    only = [x[r] if r == root else None for r in range(3)]
    for y in evaluate(build("broadcast", "mesh", 3, root), only):
        np.testing.assert_array_equal(y, x[root])
    for rank, y in enumerate(evaluate(build("scatter", "ring", 3, root), only)):
        np.testing.assert_array_equal(y, x[root].reshape(3, 2)[rank])
    for rank, y in enumerate(evaluate(build("gather", "ring", 3, root), list(x))):
        np.testing.assert_array_equal(y, x.ravel() if rank == root else nothing)
    for rank, y in enumerate(evaluate(build("reduce", "mesh", 3, root), list(x))):
        np.testing.assert_array_equal(y, x.sum(axis=0) if rank == root else nothing)


def test_blocks_may_differ_in_size():
    counts = [3, 0, 5]
    x = [np.full(count, rank) for rank, count in enumerate(counts)]
    for y in evaluate(build("all_gather", "ring", 3), x):
        np.testing.assert_array_equal(y, np.repeat(range(3), counts))
    matrix = np.array([[1, 2, 0], [4, 0, 3], [2, 2, 9]])
    x = [np.repeat(10 * rank + np.arange(3), row) for rank, row in enumerate(matrix)]
    for rank, y in enumerate(evaluate(build("all_to_all", "mesh", 3), x, counts=matrix)):
        np.testing.assert_array_equal(y, np.repeat(10 * np.arange(3) + rank, matrix[:, rank]))


def test_unequal_inputs_are_refused():
    with pytest.raises(ValueError, match=r"needs equal inputs, got \[3, 4\]"):
        evaluate(build("all_reduce", "ring", 2), [np.zeros(3), np.zeros(4)])
    with pytest.raises(ValueError, match="needs 2 equal blocks"):
        evaluate(build("reduce_scatter", "ring", 2), [np.zeros(3), np.zeros(3)])


def test_a_missing_input_or_an_unknown_op_is_refused():
    with pytest.raises(ValueError, match=r"all_reduce reads the inputs of ranks \[0, 1\]"):
        evaluate(build("all_reduce", "ring", 2), [np.zeros(2), None])
    with pytest.raises(ValueError, match="op is one of sum, prod, max, min, avg, not 'mean'"):
        evaluate(build("all_reduce", "ring", 2), [np.zeros(2)] * 2, "mean")


def test_operands_fold_by_rank_with_the_own_value_at_its_place():
    # Listed out of order on purpose; rank 1's own value stands between rank 0's and rank 2's.
    folded = [Transfer(r, 1, 0, 0, True) for r in (3, 0, 2)]
    spread = [Transfer(1, r, 0, 0) for r in (0, 2, 3)]
    schedule = Schedule("all_reduce", 4, 1, [folded, spread])
    for y in evaluate(schedule, symbols(schedule)):
        assert y.tolist() == ["(((x0 + x1) + x2) + x3)"]


def grouping(node):
    """Which operands are added to which, without left and right: nested sets of ranks."""
    if isinstance(node, ast.BinOp):
        return frozenset([grouping(node.left), grouping(node.right)])
    return int((node.value if isinstance(node, ast.Subscript) else node).id[1:])


def test_a_rings_slice_starts_at_its_owners_next_neighbour_and_ends_at_the_owner():
    schedule = build("all_reduce", "ring", 4)
    for r, text in enumerate(evaluate(schedule, symbols(schedule))[0]):
        expected = (r + 1) % 4
        for rank in (r + 2, r + 3, r):
            expected = frozenset([expected, rank % 4])
        assert grouping(ast.parse(text, mode="eval").body) == expected


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types_add_in_fp32_and_round_once_a_round(kind):
    eps = np.float32(ml_dtypes.finfo(kind).eps)
    small = np.float32(eps / 2 * 0.75)
    x = [np.array([v], kind) for v in (1.0, small, small)]
    (one_round, *_) = evaluate(build("all_reduce", "mesh", 3, one_shot=True), x)
    assert np.float32(one_round[0]) == 1 + eps  # 1 + 2 small rounds up, once
    twice = Schedule("reduce", 3, 1, [[Transfer(1, 0, 0, 0, True)], [Transfer(2, 0, 0, 0, True)]])
    assert np.float32(evaluate(twice, x)[0][0]) == 1  # each alone is rounded away
