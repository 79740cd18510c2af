import random
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import pytest
from reference_plans import INTERLEAVED, ZB_H1, ZB_H2

from parallel.pipeline import TABLE, Action, Plan, PlanError, build, check, parse, peak_in_flight


def with_row(plan, rank, text):
    row = parse(f"x stages=1 micro_batches=1 virtual=1\n0: {text}").actions[0]
    return replace(plan, actions=tuple(row if r == rank else a for r, a in enumerate(plan.actions)))


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("stages", range(1, 9))
def test_every_built_plan_passes_for_any_number_of_micro_batches(name, stages):
    for micro_batches in [1, 2, 3, 4, 5, 7, 8, 13, 17]:
        check(build(name, stages, micro_batches))


@pytest.mark.parametrize("plan", [ZB_H1, ZB_H2, *INTERLEAVED], ids=lambda plan: plan.name)
def test_published_plans_without_a_builder_pass(plan):
    check(plan)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("F0 F1 B0", "rank 0: B1 is missing"),
        ("F0 F1 B0 B1 B1", "rank 0: B1 comes 2 times"),
        ("F0 F1 B0 B1 F2", "rank 0: F2 is outside 2 micro-batches and 1 chunks"),
        ("F0 F1.1 B0 B1", "rank 0: F1.1 is outside 2 micro-batches and 1 chunks"),
        ("F0 B1 F1 B0", "rank 0: B1 comes before F1"),
        ("F0 F1 B1 B0", "rank 0: B1 comes before B0; gradients are added in the order"),
    ],
)
def test_an_incomplete_or_unordered_row_is_refused_with_rank_and_action(row, problem):
    with pytest.raises(PlanError) as refused:
        check(with_row(build("1f1b", 2, 2), 0, row))
    assert problem in str(refused.value)
    assert "plan 1f1b" in str(refused.value)


def test_a_plan_with_too_few_rows_is_refused():
    plan = build("gpipe", 3, 2)
    with pytest.raises(PlanError, match="2 rows for 3 stages"):
        check(replace(plan, actions=plan.actions[:2]))


def test_a_weight_half_before_its_input_half_is_refused():
    plan = parse("x stages=1 micro_batches=1 virtual=1\n0: F0 W0 B0")
    with pytest.raises(PlanError, match="W0 comes before B0"):
        check(plan)


def test_weight_halves_out_of_order_are_refused_but_input_halves_may_be():
    head = "x stages=1 micro_batches=2 virtual=1\n0: "
    check(parse(head + "F0 F1 B1 B0 W0 W1"))
    with pytest.raises(PlanError, match="W1 comes before W0"):
        check(parse(head + "F0 F1 B0 B1 W1 W0"))


def test_ranks_that_wait_for_each_other_are_named_with_what_they_wait_for():
    plan = parse("x stages=2 micro_batches=2 virtual=1\n0: F0 B0 F1 B1\n1: F0 F1 B0 B1")
    with pytest.raises(PlanError, match="rank 0 waits for B0>0 before B0; rank 1 waits for F1>1"):
        check(plan)


def test_a_chunk_before_the_one_it_follows_on_the_same_rank_is_refused():
    plan = parse("x stages=1 micro_batches=1 virtual=2\n0: F0.1 F0 B0.1 B0")
    with pytest.raises(PlanError, match=r"rank 0 waits for F0>1 before F0\.1"):
        check(plan)


def test_a_plan_within_its_memory_passes_and_beyond_it_is_refused():
    plan = build("1f1b", 4, 8)
    check(plan, memory=[4, 3, 2, 1])
    with pytest.raises(PlanError, match="rank 1: 3 stage inputs are kept at once; the limit is 2"):
        check(plan, memory=[4, 2, 2, 1])


def shuffled(seed):
    """A plan whose rows are in random order, F before B."""
    rng = random.Random(seed)
    stages, micro_batches = rng.randint(1, 3), rng.randint(1, 3)
    rows = []
    for _ in range(stages):
        row = [Action(kind, i) for kind in "FB" for i in range(micro_batches)]
        for _ in range(rng.randint(0, 3)):
            i = rng.randrange(len(row) - 1)
            row[i], row[i + 1] = row[i + 1], row[i]
        rows.append(tuple(row))
    return Plan("shuffled", stages, micro_batches, 1, tuple(rows))


def can_run(plan):
    """The verdict of another method: the graph of what waits for what has no cycle."""
    graph = TopologicalSorter()
    last = plan.stages - 1
    for rank, row in enumerate(plan.actions):
        for before, action in zip((None, *row), row, strict=False):
            if before is not None:
                graph.add((rank, action), (rank, before))
            if action.kind == "F" and rank > 0:
                graph.add((rank, action), (rank - 1, action))
            if action.kind == "B":
                source = (rank + 1, action) if rank < last else (rank, Action("F", action[1]))
                graph.add((rank, action), source, (rank, Action("F", action[1])))
        backwards = [action.micro_batch for action in row if action.kind == "B"]
        if backwards != sorted(backwards):
            return False
    try:
        graph.prepare()
    except CycleError:
        return False
    return True


def test_shuffled_plans_get_the_verdict_of_a_graph_search():
    verdicts = []
    for seed in range(400):
        plan = shuffled(seed)
        try:
            check(plan, memory=peak_in_flight(plan))
            accepted = True
        except PlanError:
            accepted = False
        assert accepted == can_run(plan), str(plan)
        verdicts.append(accepted)
    assert 100 < sum(verdicts) < 300
