"""The choice of a schedule: by size, by name, from a value and from a file."""

import pytest

from hcom.algorithms import build
from hcom.schedule import COLLECTIVES, ROOTED, Schedule, ScheduleError, Transfer, check
from hcom.selector import ONE_SHOT_BYTES, choose, resolve


def test_small_sums_take_one_round_and_large_ones_move_less():
    assert choose("all_reduce", ONE_SHOT_BYTES, 4) == "mesh(one_shot=True)"
    assert choose("all_reduce", ONE_SHOT_BYTES + 1, 4) == "mesh"
    small = resolve(choose("all_reduce", 8, 4), "all_reduce", 4, 0)
    large = resolve(choose("all_reduce", 1 << 20, 4), "all_reduce", 4, 0)
    assert (len(small.rounds), len(large.rounds)) == (1, 2)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("rank_size", [1, 2, 3, 8])
def test_a_choice_is_there_for_every_collective_rank_count_and_size(collective, rank_size):
    root = rank_size - 1 if collective in ROOTED else 0
    for nbytes in (0, 1, ONE_SHOT_BYTES, 1 << 30):
        schedule = resolve(choose(collective, nbytes, rank_size), collective, rank_size, root)
        assert (schedule.collective, schedule.rank_size) == (collective, rank_size)
        assert schedule.root == root
        check(schedule)


def test_a_name_and_a_form_with_options_make_what_build_makes():
    assert resolve("ring", "broadcast", 4, 2) == build("broadcast", "ring", 4, 2)
    form = "hierarchical(intra_group_size=2)"
    assert resolve(form, "all_reduce", 4, 0) == build("all_reduce", form, 4)


def test_a_schedule_is_taken_as_a_value_and_from_its_text_form(tmp_path):
    schedule = build("reduce", "tree", 5, 3)
    file = tmp_path / "mine.txt"
    file.write_text(f"# written by hand\n{schedule}")
    value = resolve(schedule, "reduce", 5, 3)
    assert resolve(f"file:{file}", "reduce", 5, 3) == value
    assert list(value.rounds) == list(schedule.rounds)


def test_the_name_of_a_users_schedule_tells_its_transfers_apart():
    """Ranks compare names: equal names with other transfers must not pass."""
    there = Schedule("broadcast", 2, 1, [[Transfer(0, 1, 0, 0)]], name="mine")
    twice = Schedule("broadcast", 2, 1, [[], [Transfer(0, 1, 0, 0)]], name="mine")
    nameless = Schedule("broadcast", 2, 1, [[Transfer(0, 1, 0, 0)]])
    names = {resolve(s, "broadcast", 2, 0).name for s in (there, twice, nameless)}
    assert len(names) == 3
    assert resolve(there, "broadcast", 2, 0).name.startswith("mine#")
    assert resolve(nameless, "broadcast", 2, 0).name.startswith("schedule#")


@pytest.mark.parametrize(
    ("collective", "rank_size", "root"),
    [("reduce", 4, 1), ("broadcast", 3, 1), ("broadcast", 4, 0)],
)
def test_a_schedule_made_for_another_call_is_refused_with_both(collective, rank_size, root):
    schedule = build("broadcast", "ring", 4, 1)
    with pytest.raises(ValueError, match=rf"\('broadcast', 4, 1\), the call is \('{collective}'"):
        resolve(schedule, collective, rank_size, root)


def test_a_schedule_that_ends_wrong_is_refused_before_it_runs(tmp_path):
    right = build("all_reduce", "ring", 3)
    short = Schedule("all_reduce", 3, right.num_chunks, list(right.rounds)[:-1])
    file = tmp_path / "short.txt"
    file.write_text(str(short))
    for algorithm in (short, f"file:{file}"):
        with pytest.raises(ScheduleError, match="at the end rank"):
            resolve(algorithm, "all_reduce", 3, 0)


def test_a_file_that_is_no_schedule_is_refused_with_the_line(tmp_path):
    file = tmp_path / "bad.txt"
    file.write_text("all_reduce ranks=2 chunks=1\n0 | c0:0->1\n")
    with pytest.raises(ScheduleError, match="line 2: expected a transfer"):
        resolve(f"file:{file}", "all_reduce", 2, 0)
    file.write_text("")
    with pytest.raises(ScheduleError, match="empty"):
        resolve(f"file:{file}", "all_reduce", 2, 0)
    with pytest.raises(FileNotFoundError, match="missing"):
        resolve(f"file:{tmp_path / 'missing.txt'}", "all_reduce", 2, 0)


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"no algorithm 'rings' for all_reduce; there are: .*ring"):
        resolve("rings", "all_reduce", 2, 0)
    with pytest.raises(TypeError, match="a name or a Schedule, not int"):
        resolve(3, "all_reduce", 2, 0)
