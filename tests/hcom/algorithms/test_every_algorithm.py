"""Every cell of the table: right at every rank count, and right in numbers."""

import itertools

import numpy as np
import pytest
from numeric_replay import ends_right

from hcom.algorithms import TABLE, build
from hcom.schedule import ROOTED, check, evaluate, mirrored, sliced

ALL = "all_reduce reduce_scatter all_gather broadcast reduce scatter gather all_to_all".split()
REFERENCE = {
    "ring": ALL[:7],
    "mesh": ALL,
    "rhd": ALL[:5],
    "tree": ["all_reduce", "broadcast", "reduce"],
    "nhr": [*ALL[:4], "scatter", "gather"],
    "nhr_v1": ALL[:3],
    "nb": [*ALL[:4], "scatter", "gather"],
    "pipeline": ALL[:3],
    "ahc": ["all_reduce"],
    "hierarchical": ALL,
    "star": ["all_reduce", "broadcast", "reduce", "scatter", "gather"],
    "pairwise": ["all_to_all"],
    "bruck": ["all_to_all"],
}
PLAIN = [(*cell, {}) for cell in TABLE]  # what is added to the table is tested by that
WITH_OPTIONS = [
    ("all_reduce", "mesh", {"one_shot": True}),
    ("all_reduce", "nhr", {"one_shot": True}),
    ("broadcast", "nhr", {"one_shot": True}),
    ("broadcast", "ring", {"slices": 4}),
    ("all_reduce", "tree", {"slices": 3}),
    ("all_to_all", "bruck", {"slices": 2}),
]
SHORT = [*range(1, 10), 12, 13, 16]
LONG = [*range(1, 33), 48, 64]


def name_of(cell):
    return "-".join(map(str, [*cell[:2], *(f"{k}={v}" for k, v in cell[2].items())]))


def roots(collective, p):
    return sorted({0, 1 % p, p // 2, p - 1}) if collective in ROOTED else [0]


def check_at(cell, ranks):
    collective, name, options = cell
    for p in ranks:
        for root in roots(collective, p):
            check(build(collective, name, p, root, **options))


def test_the_table_has_the_cells_of_the_reference():
    cells = {(collective, name) for name, cells in REFERENCE.items() for collective in cells}
    assert cells <= TABLE.keys()


@pytest.mark.parametrize("cell", PLAIN + WITH_OPTIONS, ids=name_of)
def test_every_cell_is_right_at_every_rank_count(cell):
    check_at(cell, SHORT)


@pytest.mark.nightly
@pytest.mark.parametrize("cell", PLAIN + WITH_OPTIONS, ids=name_of)
def test_every_cell_is_right_at_all_rank_counts_to_64(cell):
    check_at(cell, LONG)


@pytest.mark.parametrize("cell", PLAIN + WITH_OPTIONS, ids=name_of)
def test_every_cell_is_right_in_numbers(cell):
    collective, name, options = cell
    for p in (1, 2, 3, 6, 7, 8):
        assert ends_right(build(collective, name, p, p // 2 * (collective in ROOTED), **options))


def results(collective, x, root):
    """What each rank must get, from (rank, element) inputs of six blocks."""
    p, blocks = len(x), x.reshape(len(x), len(x), -1)
    nothing = [np.empty(0)] * p
    match collective:
        case "all_reduce":
            return [x.sum(axis=0)] * p
        case "reduce_scatter":
            return list(blocks.sum(axis=0))
        case "all_gather":
            return [x.ravel()] * p
        case "broadcast":
            return [x[root]] * p
        case "reduce":
            return [*nothing[:root], x.sum(axis=0), *nothing[root + 1 :]]
        case "scatter":
            return list(blocks[root])
        case "gather":
            return [*nothing[:root], x.ravel(), *nothing[root + 1 :]]
        case "all_to_all":
            return [y.ravel() for y in blocks.swapaxes(0, 1)]


@pytest.mark.parametrize("cell", PLAIN + WITH_OPTIONS, ids=name_of)
@pytest.mark.parametrize("size", [0, 6, 6 * 31])
def test_the_oracle_runs_every_cell(cell, size):
    collective, name, options = cell
    root = 4 if collective in ROOTED else 0
    x = np.random.default_rng(1).integers(-99, 99, (6, size))
    got = evaluate(build(collective, name, 6, root, **options), list(x))
    for y, expected in zip(got, results(collective, x, root), strict=True):
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ["mesh", "ring"])
def test_direct_schedules_take_blocks_of_any_size(name):
    counts = np.array([5, 0, 17, 40])
    ends = np.cumsum(counts)
    x = np.random.default_rng(2).integers(-99, 99, (4, ends[-1]))
    own = [x[r, ends[r] - counts[r] : ends[r]] for r in range(4)]
    for y in evaluate(build("all_gather", name, 4), own):
        np.testing.assert_array_equal(y, np.concatenate(own))
    reduced = evaluate(build("reduce_scatter", name, 4), list(x), counts=counts)
    scattered = evaluate(build("scatter", name, 4, 2), [None, None, x[2], None], counts=counts)
    for rank in range(4):
        block = slice(ends[rank] - counts[rank], ends[rank])
        np.testing.assert_array_equal(reduced[rank], x.sum(axis=0)[block])
        np.testing.assert_array_equal(scattered[rank], x[2, block])


@pytest.mark.parametrize("name", ["mesh", "pairwise", "bruck", "hierarchical"])
def test_all_to_all_takes_a_matrix_of_counts(name):
    counts = np.random.default_rng(3).integers(0, 30, (6, 6))
    x = [np.repeat(10 * r + np.arange(6), counts[r]) for r in range(6)]
    for rank, y in enumerate(evaluate(build("all_to_all", name, 6), x, counts=counts)):
        np.testing.assert_array_equal(y, np.repeat(10 * np.arange(6) + rank, counts[:, rank]))


@pytest.mark.parametrize("collective", ALL)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 12])
def test_hierarchical_takes_groups_of_any_size_that_divides(collective, size):
    for root in roots(collective, 12):
        check(build(collective, "hierarchical", 12, root, intra_group_size=size))


@pytest.mark.parametrize(
    ("intra", "inter"), list(itertools.product(["mesh", "ring"], ["ring", "rhd"]))
)
def test_hierarchical_takes_any_algorithm_on_each_level(intra, inter):
    for collective in ("all_reduce", "reduce_scatter", "all_gather"):
        options = {"intra_group_size": 4, "intra": intra, "inter": inter}
        check(build(collective, "hierarchical", 12, **options))
    check(build("reduce", "hierarchical", 12, 7, intra_group_size=4, intra=intra, inter=inter))
    check(build("broadcast", "hierarchical", 12, 7, intra_group_size=3, intra=intra, inter=inter))


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_pipeline_takes_servers_of_any_size_that_divides(collective, size):
    check(build(collective, "pipeline", 8, intra_group_size=size))


@pytest.mark.parametrize("groups", [[2, 3], [1, 4, 2], [8], [1] * 5, [5, 7, 3], [6, 4]])
def test_ahc_takes_groups_of_unequal_size(groups):
    schedule = build("all_reduce", "ahc", sum(groups), groups=groups)
    check(schedule)
    assert ends_right(schedule)


@pytest.mark.parametrize("cell", PLAIN, ids=name_of)
def test_slicing_keeps_every_meaning(cell):
    collective, name, _ = cell
    for p, slices in ((4, 2), (5, 3)):
        plain = build(collective, name, p)
        assert len(sliced(plain, slices).rounds) == len(plain.rounds) + slices - 1
        check(sliced(plain, slices))


@pytest.mark.parametrize("name", ["ring", "mesh", "rhd", "nhr", "nb", "pipeline", "hierarchical"])
def test_an_all_gather_backwards_is_a_reduce_scatter(name):
    for p in (2, 3, 6, 8):
        check(mirrored(build("all_gather", name, p)))


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("all_sum", "ring", 4), {}, "no collective 'all_sum'; there are: all_reduce, "),
        (("all_to_all", "ring", 4), {}, "no algorithm 'ring' for all_to_all; there are: mesh, "),
        (("all_reduce", "mesh", 4), {"one_shoot": 1}, "no option 'one_shoot'; it has: one_shot, "),
        (("all_reduce", "mesh(2)", 4), {}, "an algorithm is a name, or like"),
        (("all_reduce", "mesh(one_shot=f())", 4), {}, "an algorithm is a name, or like"),
        (("all_reduce", "ring", 0), {}, "rank_size is at least 1, not 0"),
        (("broadcast", "ring", 4, 4), {}, "root is a rank, 0 to 3, not 4"),
        (("all_reduce", "ring", 4, 1), {}, "all_reduce has no root"),
        (("all_reduce", "ring", 4), {"slices": 0}, "slices is at least 1, not 0"),
        (("all_reduce", "hierarchical", 6), {"intra_group_size": 4}, "divides the 6 ranks, 4 not"),
        (("all_reduce", "pipeline", 6), {"intra_group_size": 0}, "divides the 6 ranks, 0 not"),
        (("all_reduce", "hierarchical", 6), {"inter": "nhrr"}, "no algorithm 'nhrr' for"),
        (("reduce", "hierarchical", 6), {"inter": "nhr"}, "there are: mesh, ring, rhd"),
        (("all_reduce", "ahc", 6), {"groups": [2, 3]}, r"sizes of 6 ranks together, not \[2, 3\]"),
        (("all_reduce", "ahc", 6), {"groups": [6, 0]}, "groups are positive sizes"),
    ],
)
def test_a_wrong_request_is_refused_and_says_what_is_right(arguments, options, said):
    with pytest.raises(ValueError, match=said):
        build(*arguments, **options)


def test_an_options_form_is_the_same_as_options():
    form = build("all_reduce", "hierarchical(intra_group_size=4, inter='ring')", 8)
    assert form == build("all_reduce", "hierarchical", 8, intra_group_size=4, inter="ring")
    assert form.name == "hierarchical(intra_group_size=4, inter='ring')"
