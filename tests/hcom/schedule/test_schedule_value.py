"""The value: columns that broadcast, lazy rounds, and the text form that parses back."""

import numpy as np
import pytest

from hcom.schedule import Round, Rounds, Schedule, ScheduleError, Transfer, parse


def test_columns_broadcast_to_one_transfer_a_rank_and_chunk():
    rank, offset = np.arange(3)[:, None], np.arange(2)
    made = Round(rank, (rank + 1) % 3, offset, offset, reduce=True, count=2)
    assert list(made) == [
        Transfer(r, (r + 1) % 3, c, c, reduce=True, count=2) for r in range(3) for c in range(2)
    ]
    assert len(made) == 6


def test_a_round_of_listed_transfers_is_the_round_of_columns():
    listed = Round.of([Transfer(0, 1, 5, 6), Transfer(1, 0, 7, 7, reduce=True, count=3)])
    assert listed == Round([0, 1], [1, 0], [5, 7], [6, 7], [False, True], [1, 3])
    assert listed != Round([0, 1], [1, 0], [5, 7], [6, 7], [False, True], [1, 2])


def test_an_empty_round_is_legal():
    empty = Round.of([])
    assert list(empty) == []
    assert len(empty.singles()) == 0


def test_singles_expand_runs_in_listed_order():
    runs = Round.of([Transfer(0, 1, 4, 2, count=3), Transfer(2, 1, 0, 0, reduce=True)])
    assert list(runs.singles()) == [
        Transfer(0, 1, 4, 2),
        Transfer(0, 1, 5, 3),
        Transfer(0, 1, 6, 4),
        Transfer(2, 1, 0, 0, reduce=True),
    ]


def test_where_keeps_the_transfers_of_a_broadcastable_mask():
    rank = np.arange(3)[:, None]
    made = Round(rank, (rank + np.arange(1, 3)) % 3, rank, rank)
    assert [t.src for t in made.where(made.src != 1)] == [0, 0, 2, 2]


def test_rounds_are_made_only_when_asked_for():
    made = []

    def make(i):
        made.append(i)
        return Round(i, i + 1, 0, 0)

    rounds = Rounds(1_000_000, make)
    assert next(iter(rounds[-1])).src == 999_999
    assert [next(iter(r)).src for r in rounds[10:16:2]] == [10, 12, 14]
    assert next(iter(next(reversed(rounds[:5])))).src == 4
    assert made == [999_999, 10, 12, 14, 4]


def test_rounds_refuse_an_index_out_of_range():
    with pytest.raises(IndexError):
        Rounds(3, lambda i: Round(i, i, 0, 0))[3]


def test_building_never_judges():
    Schedule("nonsense", -1, 0, [[Transfer(7, 9, -1, 3)]], root=5)


TEXT = """\
all_to_all ranks=2 chunks=4 scratch=1 name=detour(by=scratch)
0 | c0:0>0:c2   c0-1:0>1:c3 c1:1+>0:c4
1 |
2 | c4:0>1:c3"""


def test_the_text_form_parses_back_and_prints_the_same():
    schedule = Schedule(
        "all_to_all",
        2,
        4,
        [
            [Transfer(0, 0, 0, 2), Transfer(0, 1, 0, 3, count=2), Transfer(1, 0, 1, 4, True)],
            [],
            [Transfer(0, 1, 4, 3)],
        ],
        num_scratch=1,
        name="detour(by=scratch)",
    )
    assert str(schedule) == TEXT
    assert parse(TEXT) == schedule
    assert parse("# a comment\n\n" + TEXT + "   # another\n") == schedule


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text form is empty"),
        ("all_reduce 4 ranks", "line 1: expected `all_reduce ranks=4"),
        ("all_reduce ranks=2 chunks=1\n\n1 | c0:0>1", "line 3: expected `0 | transfers`"),
        ("all_reduce ranks=2 chunks=1\n0 | c0:0>1 c0:0->1", "line 2: .*got 'c0:0->1'"),
    ],
)
def test_a_wrong_line_is_named(text, said):
    with pytest.raises(ScheduleError, match=said):
        parse(text)
