import random
from collections import Counter
from itertools import pairwise

import pytest
from reference_plans import INTERLEAVED, ZB_H1, ZB_H2

from parallel.pipeline import TABLE, Action, Plan, PlanError, build, check, parse
from parallel.pipeline.program import Exchange, programs
from parallel.pipeline.progress import check_progress

PUBLISHED = [ZB_H1, ZB_H2, *INTERLEAVED]
BUILT = [build(name, p, m) for name in TABLE for p in (1, 2, 3, 4, 7) for m in (1, 2, 3, 8)]


def apart(programs):
    """Each send and each receive as a call of its own, sends first."""
    return [
        [
            part
            for step in steps
            for part in (
                [Exchange((m,), ()) for m in step.sends]
                + [Exchange((), (m,)) for m in step.receives]
                if isinstance(step, Exchange)
                else [step]
            )
        ]
        for steps in programs
    ]


def exchanges(plan):
    return [
        (rank, step)
        for rank, steps in enumerate(programs(plan))
        for step in steps
        if isinstance(step, Exchange)
    ]


def test_the_middle_rank_of_1f1b_does_what_megatron_does():
    assert [str(step) for step in programs(build("1f1b", 3, 4))[1]] == [
        "receive F0>1 from rank 0",
        "F0",
        "send F0>2 to rank 2 and receive F1>1 from rank 0",
        "F1",
        "send F1>2 to rank 2 and receive B0>1 from rank 2",
        "B0",
        "send B0>0 to rank 0 and receive F2>1 from rank 0",
        "F2",
        "send F2>2 to rank 2 and receive B1>1 from rank 2",
        "B1",
        "send B1>0 to rank 0 and receive F3>1 from rank 0",
        "F3",
        "send F3>2 to rank 2 and receive B2>1 from rank 2",
        "B2",
        "send B2>0 to rank 0 and receive B3>1 from rank 2",
        "B3",
        "send B3>0 to rank 0",
    ]


@pytest.mark.parametrize("plan", [*BUILT, *PUBLISHED], ids=lambda p: f"{p.name}-{p.stages}")
def test_each_message_has_one_send_and_one_receive(plan):
    sends = Counter(m for _, step in exchanges(plan) for m in step.sends)
    receives = Counter(m for _, step in exchanges(plan) for m in step.receives)
    directions = 2 if plan.has("B") else 1
    between_ranks = plan.depth - 1 if plan.stages > 1 else 0
    assert sends == receives
    assert len(sends) == sum(sends.values()) == directions * plan.micro_batches * between_ranks


@pytest.mark.parametrize("plan", [*BUILT, *PUBLISHED], ids=lambda p: f"{p.name}-{p.stages}")
def test_messages_are_at_their_own_ranks_and_have_their_own_tags(plan):
    for rank, step in exchanges(plan):
        assert all(message.src == rank for message in step.sends)
        assert all(message.dst == rank for message in step.receives)
    tags = Counter(m.tag for _, step in exchanges(plan) for m in step.sends)
    assert set(tags.values()) <= {1}


@pytest.mark.parametrize("plan", [*BUILT, *PUBLISHED], ids=lambda p: f"{p.name}-{p.stages}")
def test_the_actions_of_a_program_are_those_of_the_plan(plan):
    for steps, row in zip(programs(plan), plan.actions, strict=True):
        assert tuple(step for step in steps if not isinstance(step, Exchange)) == row


@pytest.mark.parametrize("plan", [*BUILT, *PUBLISHED], ids=lambda p: f"{p.name}-{p.stages}")
def test_exchanges_never_deadlock(plan):
    check_progress(programs(plan))


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_nothing_is_received_before_the_action_that_needs_it_is_next(name):
    for steps in programs(build(name, 4, 8)):
        for step, action in pairwise(steps):
            if isinstance(step, Exchange) and step.receives:
                (message,) = step.receives
                assert (message.direction, message.micro_batch) == action[:2]


def with_any_warm_up(seed):
    """A plan of 1F1B's kind whose ranks run more forwards ahead than they need."""
    rng = random.Random(seed)
    stages, micro_batches, ahead, rows = rng.randint(2, 5), rng.randint(2, 8), 0, []
    for _ in range(stages):
        ahead = min(micro_batches, ahead + 1 + rng.randint(0, 2))
        forwards = [Action("F", i) for i in range(micro_batches)]
        backwards = [Action("B", i) for i in range(micro_batches)]
        row, forwards = forwards[:ahead], forwards[ahead:]
        at_once = rng.randint(1, min(2, ahead))
        while forwards or backwards:
            row += backwards[:at_once] + forwards[:at_once]
            forwards, backwards = forwards[at_once:], backwards[at_once:]
        rows.insert(0, tuple(row))
    return Plan("ahead", stages, micro_batches, 1, tuple(rows))


def test_plans_with_any_warm_up_pass_and_never_deadlock():
    for seed in range(400):
        check(with_any_warm_up(seed))


def test_separate_sends_and_receives_of_1f1b_deadlock():
    with pytest.raises(
        PlanError, match=r"deadlock: rank 0 waits to send F3.*; rank 3 waits to send B0>2 to"
    ):
        check_progress(apart(programs(build("1f1b", 4, 8))))


def test_separate_sends_and_receives_of_gpipe_do_not():
    check_progress(apart(programs(build("gpipe", 4, 8))))


def test_two_chunks_on_one_rank_hand_over_without_a_message():
    plan = parse("x stages=1 micro_batches=1 virtual=2\n0: F0 F0.1 B0.1 B0")
    assert programs(plan) == plan.actions
