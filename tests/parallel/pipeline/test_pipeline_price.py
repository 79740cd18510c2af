import pytest
from reference_plans import INTERLEAVED, ZB_H1, ZB_H2

from parallel.pipeline import PlanError, build, parse, price

# start times of a list simulation with forward 1, backward 2, as published for these sizes
ONE_F_ONE_B_4_8 = """
F0@0 F1@1 F2@2 F3@3 B0@10 F4@12 B1@13 F5@15 B2@16 F6@18 B3@19 F7@21 B4@22 B5@25 B6@28 B7@31
F0@1 F1@2 F2@3 B0@8 F3@10 B1@11 F4@13 B2@14 F5@16 B3@17 F6@19 B4@20 F7@22 B5@23 B6@26 B7@29
F0@2 F1@3 B0@6 F2@8 B1@9 F3@11 B2@12 F4@14 B3@15 F5@17 B4@18 F6@20 B5@21 F7@23 B6@24 B7@27
F0@3 B0@4 F1@6 B1@7 F2@9 B2@10 F3@12 B3@13 F4@15 B4@16 F5@18 B5@19 F6@21 B6@22 F7@24 B7@25
"""
ONE_F_ONE_B_2_4 = """
F0@0 F1@1 B0@4 F2@6 B1@7 F3@9 B2@10 B3@13
F0@1 B0@2 F1@4 B1@5 F2@7 B2@8 F3@10 B3@11
"""
GPIPE_2_4 = """
F0@0 F1@1 F2@2 F3@3 B0@7 B1@9 B2@11 B3@13
F0@1 F1@2 F2@3 F3@4 B0@5 B1@7 B2@9 B3@11
"""
INTERLEAVED_2_2_4 = """
F0@0 F1@0.5 F0.1@1 F1.1@1.5 F2@2 B0.1@3 F3@4 B1.1@4.5 F2.1@5.5 B0@6 F3.1@7 B1@7.5 B2.1@9 \
B3.1@10.5 B2@11.5 B3@12.5
F0@0.5 F1@1 F0.1@1.5 B0.1@2 F1.1@3 B1.1@3.5 F2@4.5 B0@5 F3@6 B1@6.5 F2.1@7.5 B2.1@8 F3.1@9 \
B3.1@9.5 B2@10.5 B3@11.5
"""
ZB_H1_RANK_0 = (
    "F0@0 F1@1 F2@2 F3@3 B0@7 W0@8 F4@9 B1@10 W1@11 F5@12 B2@13 W2@14 F6@15 B3@16 W3@17 F7@18 "
    "B4@19 W4@20 B5@21 W5@22 B6@23 W6@24 B7@25 W7@26"
)


def timed(plan):
    return [" ".join(f"{slot.action}@{slot.start:g}" for slot in row) for row in price(plan).slots]


@pytest.mark.parametrize(
    ("plan", "table"),
    [
        (build("1f1b", 4, 8), ONE_F_ONE_B_4_8),
        (build("1f1b", 2, 4), ONE_F_ONE_B_2_4),
        (build("gpipe", 2, 4), GPIPE_2_4),
        (INTERLEAVED[0], INTERLEAVED_2_2_4),
    ],
    ids=["1f1b-4-8", "1f1b-2-4", "gpipe-2-4", "interleaved-2-2-4"],
)
def test_start_times_are_those_of_the_worked_tables(plan, table):
    assert timed(plan) == table.strip().splitlines()


def test_split_backwards_start_as_in_the_worked_table():
    assert timed(ZB_H1)[0] == ZB_H1_RANK_0


def test_gpipe_drains_backwards_from_the_last_rank():
    starts = price(build("gpipe", 4, 8)).starts
    for rank, row in enumerate(starts):
        assert row[:8] == tuple(rank + i for i in range(8))
        assert row[8:] == tuple(17 - 2 * rank + 2 * i for i in range(8))


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (8, 16), (4, 1), (5, 3)])
@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_the_bubble_is_the_formula(name, stages, micro_batches):
    cost = price(build(name, stages, micro_batches))
    fill = micro_batches + stages - 1
    assert cost.makespan == 3 * fill
    assert cost.busy == (3 * micro_batches,) * stages
    assert cost.bubble == pytest.approx((stages - 1) / fill)


@pytest.mark.parametrize(
    ("plan", "makespan", "in_flight"),
    [
        (build("1f1b", 4, 8), 33, (4, 3, 2, 1)),
        (build("gpipe", 4, 8), 33, (8, 8, 8, 8)),
        (ZB_H1, 27, (4, 3, 2, 1)),
        (ZB_H2, 27, (7, 5, 3, 1)),
        (INTERLEAVED[1], 28.5, (11, 9, 7, 5)),
        (INTERLEAVED[4], 26.25, (19, 17, 15, 13)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_makespan_and_memory_are_the_published_ones(plan, makespan, in_flight):
    cost = price(plan)
    assert cost.makespan == makespan
    assert cost.in_flight == in_flight


@pytest.mark.parametrize(
    ("plan", "quarter", "half"),
    [
        (build("gpipe", 2, 4), 15.5, 16),
        (build("1f1b", 2, 4), 16, 17),
        (build("gpipe", 4, 8), 34.5, 36),
        (build("1f1b", 4, 8), 37, 41),
        (ZB_H1, 30, 33),
        (INTERLEAVED[0], 15, 16.5),
        (INTERLEAVED[1], 32, 35.5),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_transfer_time_costs_what_is_published(plan, quarter, half):
    assert price(plan, transfer=0.25).makespan == quarter
    assert price(plan, transfer=0.5).makespan == half


@pytest.mark.parametrize("stages", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_one_f_one_b_pays_a_round_trip_every_p_micro_batches(stages, rounds):
    micro_batches, transfer = stages * rounds, 1 / 64
    cost = price(build("1f1b", stages, micro_batches), transfer=transfer)
    trips = 2 * (stages - 1) * rounds + 2 * (stages - 2)
    assert cost.makespan == 3 * (micro_batches + stages - 1) + transfer * trips


def test_the_slowest_rank_sets_the_pace():
    cost = price(build("1f1b", 3, 20), forward=[1, 2, 1], backward=[2, 4, 2])
    assert cost.busy == (60, 120, 60)
    before, after, turn = 1, 2, 1 + 2  # F and B of rank 0; F and B of rank 2
    assert before + 120 + after <= cost.makespan <= before + 120 + after + turn


def test_a_rank_alone_has_no_bubble():
    assert price(build("1f1b", 1, 7)).bubble == 0


def test_the_headline_names_plan_makespan_and_bubble():
    assert str(price(build("1f1b", 4, 8))) == (
        "1f1b: 4 stages, 8 micro-batches, makespan 33, bubble 27.3%"
    )


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({"forward": 0}, "an action takes time, not 0"),
        ({"backward": [1, -1]}, "an action takes time, not -1"),
        ({"forward": [1, 1, 1]}, "3 times came for 2 stages"),
        ({"transfer": -1}, "takes no time or some, not -1"),
    ],
)
def test_impossible_times_are_refused(times, problem):
    with pytest.raises(ValueError, match=problem):
        price(build("1f1b", 2, 2), **times)


def test_a_plan_whose_actions_wait_for_each_other_has_no_price():
    plan = parse("x stages=2 micro_batches=1 virtual=1\n0: B0 F0\n1: F0 B0")
    with pytest.raises(PlanError, match="rank 0 waits for B0>0 before B0; rank 1 waits for F0>1"):
        price(plan)
