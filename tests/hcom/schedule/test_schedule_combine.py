"""The combinators' laws: what each keeps of the meaning, on schedules drawn at random."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcom.algorithms import TABLE, algorithms, build
from hcom.schedule import (
    COLLECTIVES,
    ROOTED,
    Rounds,
    Schedule,
    ScheduleError,
    Transfer,
    check,
    evaluate,
    mirrored,
    on,
    parse,
    relabelled,
    rooted,
    sliced,
    sparing,
    then,
    together,
)

LAWS = settings(max_examples=40, deadline=None)


@st.composite
def schedules(draw, collectives=COLLECTIVES, most=7):
    """A right schedule of any algorithm."""
    cells = sorted(cell for cell in TABLE if cell[0] in collectives)
    collective, algorithm = draw(st.sampled_from(cells))
    p = draw(st.integers(1, most))
    root = draw(st.integers(0, p - 1)) if collective in ROOTED else 0
    return build(collective, algorithm, p, root)


@st.composite
def broken(draw, schedule):
    """The schedule with one transfer left out (or whole, if it has none)."""
    rounds = [list(r) for r in schedule.rounds]
    places = [(i, j) for i, r in enumerate(rounds) for j in range(len(r))]
    if places:
        i, j = draw(st.sampled_from(places))
        del rounds[i][j]
    return dataclasses.replace(schedule, rounds=Rounds.of(rounds))


def right(schedule):
    try:
        check(schedule)
    except ScheduleError:
        return False
    return True


@LAWS
@given(st.data())
def test_relabelling_commutes_with_check(data):
    schedule = data.draw(schedules())
    if data.draw(st.booleans()):
        schedule = data.draw(broken(schedule))
    ranks = data.draw(st.permutations(range(schedule.rank_size)))
    assert right(relabelled(schedule, ranks)) == right(schedule)


@LAWS
@given(schedules(), st.data())
def test_relabelling_back_gives_the_schedule_again(schedule, data):
    ranks = data.draw(st.permutations(range(schedule.rank_size)))
    back = np.argsort(ranks)
    again = relabelled(relabelled(schedule, ranks), back)
    assert again.root == schedule.root
    listed = [[sorted(r.singles()) for r in s.rounds] for s in (again, schedule)]
    assert listed[0] == listed[1]


@LAWS
@given(schedules(), st.integers(1, 4))
def test_slicing_keeps_the_meaning_and_adds_a_round_a_slice(schedule, slices):
    cut = sliced(schedule, slices)
    check(cut)
    rounds = len(schedule.rounds)
    assert len(cut.rounds) == (rounds + slices - 1 if rounds else 0)
    assert cut.num_positions == schedule.num_positions * slices


@LAWS
@given(schedules(collectives=["all_reduce", "reduce_scatter", "reduce"]), st.integers(1, 3))
def test_slicing_changes_no_bit_of_a_sum(schedule, slices):
    size = 60 * schedule.rank_size
    x = list(np.random.default_rng(0).standard_normal((schedule.rank_size, size)))
    plain, cut = evaluate(schedule, x), evaluate(sliced(schedule, slices), x)
    for whole, pieces in zip(plain, cut, strict=True):
        np.testing.assert_array_equal(whole, pieces)


@LAWS
@given(schedules())
def test_a_mirror_image_twice_is_the_schedule(schedule):
    if schedule.collective == "all_to_all":
        with pytest.raises(ValueError, match="all_to_all has no mirror"):
            mirrored(schedule)
        return
    assert mirrored(mirrored(schedule)) == schedule


# Where no transfer is needless: no value reaches a rank twice.
EXACT = [
    (collective, name)
    for collective in ("all_gather", "scatter", "gather")
    for name in ("ring", "mesh", "nb", "hierarchical")
] + [("broadcast", name) for name in ("ring", "rhd", "tree", "star")]


@LAWS
@given(st.sampled_from(EXACT), st.integers(1, 9), st.data())
def test_mirroring_keeps_the_meaning_where_nothing_is_sent_twice(cell, p, data):
    root = data.draw(st.integers(0, p - 1)) if cell[0] in ROOTED else 0
    check(mirrored(build(*cell, p, root)))


@LAWS
@given(st.data(), st.integers(1, 5), st.integers(1, 3))
def test_checked_parts_side_by_side_are_right(data, p, parts):
    """Several rings and trees at once: each has its own chunks, on all ranks in some order."""
    rounds, chunks = Rounds.of([]), 0
    for _ in range(parts):
        part = build("all_reduce", data.draw(st.sampled_from(algorithms("all_reduce"))), p)
        ranks = data.draw(st.permutations(range(p)))
        rounds = together(rounds, on(part, ranks, chunks + np.arange(part.num_chunks)))
        chunks += part.num_chunks
    check(Schedule("all_reduce", p, chunks, rounds))


@LAWS
@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from(["ring", "mesh", "rhd", "nhr", "nb"]))
def test_levels_compose_to_an_all_reduce(size, groups, between):
    rows = np.arange(size * groups).reshape(groups, size)
    middle = build("all_reduce", between, groups)
    slices = np.arange(size) * middle.num_chunks
    rounds = then(
        on(build("reduce_scatter", "ring", size), rows, slices, middle.num_chunks),
        on(middle, rows.T, slices[:, None] + np.arange(middle.num_chunks)),
        on(build("all_gather", "ring", size), rows, slices, middle.num_chunks),
    )
    check(Schedule("all_reduce", size * groups, size * middle.num_chunks, rounds))


def test_a_chunk_may_become_several_runs():
    # Inside groups first: number l takes the blocks of all ranks of that number.
    groups, size = 3, 2
    rows = np.arange(groups * size).reshape(groups, size)
    inside = on(build("reduce_scatter", "mesh", size), rows, rows.T[None])
    between = on(build("reduce_scatter", "ring", groups), rows.T, rows.T)
    check(Schedule("reduce_scatter", groups * size, groups * size, then(inside, between)))
    assert sorted(str(t) for t in inside[0] if t.src == 0) == ["c1:0+>1", "c3:0+>1", "c5:0+>1"]


def test_neighbouring_chunks_stay_one_run():
    halving = build("all_reduce", "rhd", 4)
    wide = on(halving, range(4), np.arange(4) * 3, width=3)
    assert [str(t) for t in wide[0] if t.src == 0] == ["c6-11:0+>2"]
    apart = on(halving, range(4), [0, 2, 4, 6])
    assert [str(t) for t in apart[0] if t.src == 0] == ["c4:0+>2", "c6:0+>2"]


@pytest.mark.parametrize(
    ("ranks", "at", "width", "said"),
    [
        ([0, 1, 2], [0, 1], 1, "names 3 ranks, .* has 2"),
        ([0, 1], [0, 1, 2], 1, r"`at` has shape \(1, 3\), expected \(1 or 1, 2\) starts"),
        ([0, 1], [[0, 1]] * 3, 1, r"`at` has shape \(3, 2\)"),
        ([0, 1], [0, 1], 2, "makes two chunks of .* one position"),
        ([0, 1], [3, 3], 1, "makes two chunks of .* one position"),
        ([1, 1], [0, 1], 1, "names one rank twice"),
        ([[0, 1], [1, 2]], [0, 1], 1, "two copies of .* meet on one rank and position"),
        ([[0, 1], [1, 2]], [[0, 2], [1, 3]], 2, "two copies of .* meet"),
    ],
)
def test_a_map_that_does_not_cover_exactly_is_refused(ranks, at, width, said):
    with pytest.raises(ValueError, match=said):
        on(build("all_reduce", "ring", 2), ranks, at, width)


def test_copies_may_share_ranks_where_their_positions_differ():
    both = on(build("all_reduce", "ring", 2), [[0, 1], [1, 0]], [[0, 1], [2, 3]])
    check(Schedule("all_reduce", 2, 4, both))


def test_no_permutation_is_refused():
    with pytest.raises(ValueError, match="ranks is no permutation of 0 to 2"):
        relabelled(build("all_reduce", "ring", 3), [0, 1, 1])


def test_rooted_turns_the_ranks_round():
    turned = rooted(build("gather", "star", 4), 3)
    check(turned)
    assert turned.root == 3
    assert [str(t) for t in turned.rounds[0]] == ["c0:0>3", "c1:1>3", "c2:2>3"]


def test_sparing_leaves_out_what_goes_to_one_rank():
    spared = sparing(build("all_gather", "mesh", 3).rounds, 1)
    assert sorted(map(str, spared[0])) == ["c0:0>2", "c1:1>0", "c1:1>2", "c2:2>0"]


def test_then_and_together_take_parts_of_any_length():
    first, second = (Rounds.of([[Transfer(0, 1, c, c)]] * n) for c, n in ((0, 2), (1, 1)))
    assert [str(next(iter(r))) for r in then(first, second)] == ["c0:0>1", "c0:0>1", "c1:0>1"]
    assert [[str(t) for t in r] for r in together(first, second)] == [
        ["c0:0>1", "c1:0>1"],
        ["c0:0>1"],
    ]
    assert len(then()) == len(together()) == 0


@LAWS
@given(schedules(most=5), st.integers(1, 3))
def test_every_text_form_parses_back(schedule, slices):
    cut = sliced(schedule, slices)
    assert parse(str(cut)) == cut
