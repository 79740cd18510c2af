"""The checker accepts what ends as it must, and says where a schedule goes wrong."""

import time

import pytest

from hcom.algorithms import TABLE, build
from hcom.schedule import ScheduleError, check, parse

GOOD = {
    "all_reduce": "all_reduce ranks=3 chunks=1\n0 | c0:1+>0 c0:2+>0\n1 | c0:0>1 c0:0>2",
    "reduce_scatter": "reduce_scatter ranks=2 chunks=2\n0 | c1:0+>1 c0:1+>0",
    "all_gather": "all_gather ranks=2 chunks=4\n0 | c0-1:0>1 c2-3:1>0",
    "broadcast": "broadcast ranks=3 chunks=1 root=1\n0 | c0:1>2\n1 | c0:2>0",
    "reduce": "reduce ranks=2 chunks=1 root=1\n0 | c0:0+>1",
    "scatter": "scatter ranks=2 chunks=2 root=1\n0 | c0:1>0",
    "gather": "gather ranks=2 chunks=2\n0 | c1:1>0",
    "all_to_all": "all_to_all ranks=2 chunks=4\n0 | c0:0>0:c2 c1:0>1:c2 c0:1>0:c3 c1:1>1:c3",
}


@pytest.mark.parametrize("collective", GOOD)
def test_each_collective_has_a_schedule_that_passes(collective):
    check(parse(GOOD[collective]))


@pytest.mark.parametrize("collective", GOOD)
def test_each_collective_refuses_to_end_early(collective):
    title = GOOD[collective].splitlines()[0]
    with pytest.raises(ScheduleError, match=r"at the end rank \d holds"):
        check(parse(title))


def test_values_travel_through_scratch():
    check(parse("broadcast ranks=2 chunks=1 scratch=2\n0 | c0:0>1:c2\n1 | c2:1>1:c0"))


def test_a_round_reads_before_it_writes():
    swap = "all_to_all ranks=2 chunks=4\n0 | c0:0>0:c2 c1:0>1:c0 c0:1>0:c1 c1:1>1:c3\n"
    check(parse(swap + "1 | c0:1>1:c2 c1:0>0:c3"))


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ("0 | c0:1+>0\n1 | c0:1+>0", "round 1: c0:1+>0: it counts a contribution twice"),
        ("0 | c0:1+>0 c0:1+>0", "round 0: c0:1+>0: it counts a contribution twice"),
        ("0 | c0:0+>0", "it counts a contribution twice"),
        ("0 | c0:0>1:c2 c0:1>0:c3", "at the end rank 0 holds chunk 0 of ranks {0}"),
        ("0 | c2:0>1:c0", "round 0: c2:0>1:c0: the source holds nothing there"),
        ("0 | c0:0+>1:c1", "round 0: c0:0+>1:c1: it adds values of two origins"),
        ("0 | c0:0+>1:c2", "it would add to nothing"),
        ("0 | c0:0>1 c0:1+>1", "its copy meets another write of this round"),
        ("0 | c0:0>2", "round 0: c0:0>2: ranks are 0 to 1"),
        ("0 | c3-4:0>1", "c3-4:0>1: positions are 0 to 3"),
        ("0 | c3-2:0>1", "count is at least 1"),
    ],
)
def test_what_a_transfer_does_wrong_is_named(rounds, said):
    text = "all_reduce ranks=2 chunks=2 scratch=2 name=mine\n" + rounds
    with pytest.raises(ScheduleError, match=said.replace("+>", "[+]>")) as error:
        check(parse(text))
    assert "name=mine" in str(error.value)


@pytest.mark.parametrize("wrong", ["c1-2:1>0", "c0-1:1>0", "c0:1>0"])
def test_the_transfer_named_is_the_one_that_is_wrong_not_its_neighbour(wrong):
    text = f"all_gather ranks=3 chunks=3\n0 | c0:0>1 c0:0>2 {wrong} c2:2>1"
    with pytest.raises(ScheduleError, match=f"round 0: {wrong}: the source holds nothing"):
        check(parse(text))


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("all_scatter ranks=2 chunks=2", "collective is one of all_reduce"),
        ("all_reduce ranks=0 chunks=1", "rank_size is at least 1"),
        ("broadcast ranks=2 chunks=1 root=2", "root is a rank, 0 to 1"),
        ("all_reduce ranks=2 chunks=1 root=1", "all_reduce has no root"),
        ("all_gather ranks=2 chunks=3", "num_chunks is a multiple of 2"),
        ("all_to_all ranks=2 chunks=6", "num_chunks is a multiple of 4"),
        ("all_reduce ranks=2 chunks=0", "num_chunks is a multiple of 1"),
    ],
)
def test_a_title_that_cannot_be_is_refused(title, said):
    with pytest.raises(ScheduleError, match=said):
        check(parse(title))


@pytest.mark.parametrize("cell", sorted(TABLE), ids="-".join)
def test_sixty_four_ranks_take_less_than_a_second(cell):
    schedule = build(*cell, 64)
    start = time.process_time()
    check(schedule)
    assert time.process_time() - start < 1


def test_more_ranks_than_a_machine_word_has_bits_are_told_apart():
    check(build("all_reduce", "ring", 65))
    rounds = list(build("all_reduce", "mesh", 65, one_shot=True).rounds)
    lacking = rounds[0].where((rounds[0].src != 64) | (rounds[0].dst != 3))
    text = "all_reduce ranks=65 chunks=1\n0 | " + " ".join(map(str, lacking))
    with pytest.raises(ScheduleError, match=r"at the end rank 3 holds chunk 0 of ranks .*,63}"):
        check(parse(text))
