"""Where positions lie in bytes, and whose size a moved value has."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from hcom.algorithms import build
from hcom.schedule import Layout, Schedule, Transfer, borders, moves, parse


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 4096, 2**40 + 13])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 64, 1000])
def test_chunk_i_starts_at_the_next_cache_line_after_its_share(nbytes, chunks):
    expected = [
        min(nbytes, ceil(Fraction(i * nbytes, chunks) / 64) * 64) for i in range(chunks + 1)
    ]
    assert borders(nbytes, chunks).tolist() == expected


def test_borders_stay_in_64_bits():
    assert borders(2**62, 4096)[4095] == 2**62 // 4096 * 4095


@pytest.mark.parametrize("refined", [2, 3, 8])
def test_refining_moves_no_border(refined):
    assert set(borders(99_999, 7)) <= set(borders(99_999, 7 * refined))


def test_blocks_start_at_their_counts_border_and_split_inside():
    schedule = build("all_gather", "ring", 3, slices=2)
    layout = Layout.of(schedule, [100, 0, 1000])
    assert layout.start[1].tolist() == [0, 64, 100, 100, 100, 100 + 512]
    assert layout.size[2].tolist() == [64, 36, 0, 0, 512, 488]


def test_all_to_all_has_an_input_half_and_an_output_half_on_each_rank():
    bytes_to = np.array([[5, 70], [8, 9]])
    layout = Layout.of(build("all_to_all", "mesh", 2), bytes_to)
    assert layout.start.tolist() == [[0, 5, 0, 5], [0, 8, 0, 70]]
    assert layout.size.tolist() == [[5, 70, 5, 8], [8, 9, 70, 9]]


def test_a_layout_that_the_collective_cannot_have_is_refused():
    with pytest.raises(ValueError, match="bytes are not negative"):
        Layout.of(build("all_reduce", "ring", 2), -1)
    with pytest.raises(ValueError, match="all_reduce has one buffer"):
        Layout.of(build("all_reduce", "ring", 2), [1, 1])


def test_moves_expand_runs_and_name_the_owner_of_a_gathered_block():
    schedule = build("all_gather", "ring", 3, slices=2)
    made = list(moves(schedule))
    assert len(made) == len(schedule.rounds)
    for move in made:
        assert move.origin.tolist() == move.src_chunk.tolist()
        assert move.origin_rank.tolist() == (move.src_chunk // 2).tolist()


def test_a_value_keeps_its_origin_through_scratch():
    detour = parse(
        "all_to_all ranks=2 chunks=4 scratch=1\n"
        "0 | c1:0>0:c4 c0:0>0:c2 c1:1>1:c3\n"
        "1 | c4:0>1:c2 c0:1>0:c3"
    )
    first, second = moves(detour)
    assert (first.origin[0], first.origin_rank[0]) == (1, 0)
    assert (second.origin[0], second.origin_rank[0]) == (1, 0)
    assert (second.origin[1], second.origin_rank[1]) == (0, 1)


def test_origins_are_followed_from_the_first_round_that_moves_a_value_elsewhere():
    rounds = [
        [Transfer(0, 1, 0, 0)],
        [Transfer(1, 2, 0, 2)],
        [Transfer(2, 2, 2, 0)],
    ]
    last = list(moves(Schedule("broadcast", 3, 2, rounds, num_scratch=1)))[-1]
    assert (last.origin.tolist(), last.origin_rank.tolist()) == ([0], [0])
