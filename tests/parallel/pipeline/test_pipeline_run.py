import random
import time
from itertools import pairwise

import numpy as np
import pytest
import rendezvous
from reference_plans import INTERLEAVED, ZB_H1, ZB_H2

from parallel.pipeline import build, price, run

SHAPE = (3, 5)


class Stage:
    """A layer y = tanh(x w): the first one has the data, the last one a loss."""

    def __init__(self, index, depth, micro_batches, *, sleep=None):
        rng = np.random.default_rng(index)
        self.first, self.last, self.sleep = index == 0, index == depth - 1, sleep
        self.w = rng.normal(size=(SHAPE[1], SHAPE[1]))
        self.data = np.random.default_rng(99).normal(size=(micro_batches, *SHAPE))
        self.gradient = np.zeros_like(self.w)
        self.losses, self.saved, self.calls = {}, {}, []

    def forward(self, micro_batch, x):
        self._called("F", micro_batch)
        assert (x is None) == self.first
        x = self.data[micro_batch] if self.first else x.copy()
        y = np.tanh(x @ self.w)
        self.saved[micro_batch] = (x, y)
        if self.last:
            self.losses[micro_batch] = float((y**2).sum())
            return None
        return y

    def backward_input(self, micro_batch, dy):
        self._called("B", micro_batch)
        assert (dy is None) == self.last
        x, y = self.saved.pop(micro_batch)
        dz = (2 * y if self.last else dy) * (1 - y**2)
        self.saved[micro_batch] = (x, dz)
        return None if self.first else dz @ self.w.T

    def backward_weight(self, micro_batch):
        self._called("W", micro_batch)
        x, dz = self.saved.pop(micro_batch)
        self.gradient += x.T @ dz

    def _called(self, kind, micro_batch):
        self.calls.append(f"{kind}{micro_batch}")
        if self.sleep is not None:
            time.sleep(self.sleep())


def stages_of(plan, **options):
    return [Stage(index, plan.depth, plan.micro_batches, **options) for index in range(plan.depth)]


def by_rank(plan, stages):
    chunks = range(plan.virtual)
    return [[stages[plan.virtual_stage(r, c)] for c in chunks] for r in range(plan.stages)]


def serial(plan, backward=True):
    """The same model without a pipeline: each micro-batch forwards and back, in order."""
    stages = stages_of(plan)
    for micro_batch in range(plan.micro_batches):
        x = None
        for stage in stages:
            x = stage.forward(micro_batch, x)
        dy = None
        for stage in reversed(stages) if backward else ():
            dy = stage.backward_input(micro_batch, dy)
            stage.backward_weight(micro_batch)
    return stages


def assert_same(stages, expected):
    for stage, reference in zip(stages, expected, strict=True):
        np.testing.assert_array_equal(stage.gradient, reference.gradient)
        assert stage.losses == reference.losses


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 4, 9])
def test_loss_and_gradients_are_the_serial_ones_bit_for_bit(name, stages, micro_batches):
    plan = build(name, stages, micro_batches)
    pipeline = stages_of(plan)
    rendezvous.run_plan(plan, by_rank(plan, pipeline), SHAPE)
    assert_same(pipeline, serial(plan))


@pytest.mark.parametrize("plan", [ZB_H1, ZB_H2, *INTERLEAVED], ids=lambda plan: plan.name)
def test_chunks_and_split_backwards_are_the_serial_model_too(plan):
    pipeline = stages_of(plan)
    rendezvous.run_plan(plan, by_rank(plan, pipeline), SHAPE)
    assert_same(pipeline, serial(plan))


def test_forward_only_gives_the_losses_and_no_gradient():
    plan = build("forward_only", 3, 4)
    pipeline = stages_of(plan)
    rendezvous.run_plan(plan, by_rank(plan, pipeline), SHAPE)
    assert_same(pipeline, serial(plan, backward=False))


@pytest.mark.parametrize("plan", [build("1f1b", 4, 8), INTERLEAVED[1]], ids=lambda plan: plan.name)
def test_slow_stages_change_nothing(plan):
    expected = serial(plan)
    for seed in range(5):
        rng = random.Random(seed)
        pipeline = stages_of(plan, sleep=lambda rng=rng: rng.uniform(0, 0.003))
        rendezvous.run_plan(plan, by_rank(plan, pipeline), SHAPE)
        assert_same(pipeline, expected)


def test_a_whole_backward_runs_both_halves_at_once():
    plan = build("1f1b", 2, 2)
    pipeline = stages_of(plan)
    rendezvous.run_plan(plan, by_rank(plan, pipeline), SHAPE)
    assert " ".join(pipeline[1].calls) == "F0 B0 W0 F1 B1 W1"


def test_a_split_backward_runs_its_halves_where_the_plan_says():
    pipeline = stages_of(ZB_H1)
    rendezvous.run_plan(ZB_H1, by_rank(ZB_H1, pipeline), SHAPE)
    for stage, row in zip(pipeline, ZB_H1.actions, strict=True):
        assert stage.calls == [str(action) for action in row]


class Carried:
    """y = w x, with the first stage's output carried along to the third: a skip connection."""

    def __init__(self, index, stages):
        self.index, self.last, self.w = index, index == stages - 1, float(index + 2)
        self.gradient, self.saved, self.loss = 0.0, {}, 0.0

    def forward(self, micro_batch, x):
        if self.index == 0:
            y = self.w * (micro_batch + 1.0)
            self.saved[micro_batch] = micro_batch + 1.0
            return np.array([y, y])
        x, skip = x
        x = x + skip if self.index == 2 else x
        self.saved[micro_batch] = x
        self.loss += self.w * x if self.last else 0.0
        return None if self.last else np.array([self.w * x, skip])

    def backward_input(self, micro_batch, dy):
        dy, dskip = (1.0, 0.0) if self.last else dy
        dy = dy + dskip if self.index == 0 else dy
        self.gradient += dy * self.saved[micro_batch]
        dx = dy * self.w
        return None if self.index == 0 else np.array([dx, dskip + dx * (self.index == 2)])

    def backward_weight(self, micro_batch):
        del self.saved[micro_batch]


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_a_skip_connection_rides_along_with_the_messages_between_neighbours(name):
    plan = build(name, 4, 3)
    pipeline = [Carried(index, 4) for index in range(4)]
    rendezvous.run_plan(plan, [[stage] for stage in pipeline], (2,))
    # loss = sum over i of w3 w2 (w1 + 1) w0 i, with w = 2, 3, 4, 5 and i = 1, 2, 3
    assert pipeline[3].loss == 5 * 4 * (3 + 1) * 2 * 6
    assert [stage.gradient for stage in pipeline] == [
        5 * 4 * (3 + 1) * 6,
        5 * 4 * 2 * 6,
        5 * (3 + 1) * 2 * 6,
        4 * (3 + 1) * 2 * 6,
    ]


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (4, 2), (1, 3)])
def test_on_the_unit_profile_device_time_is_the_price(name, stages, micro_batches):
    plan = build(name, stages, micro_batches)
    world = rendezvous.run_plan(plan, by_rank(plan, stages_of(plan)), SHAPE)
    cost = price(plan)
    for rank, device in enumerate(world.devices):
        phases = [event for event in device.trace.events() if event.kind == "phase"]
        assert [event.name for event in phases] == [str(action) for action in plan.actions[rank]]
        assert tuple(event.device_start for event in phases) == cost.starts[rank]
    assert max(device.clock() for device in world.devices) == cost.makespan


@pytest.mark.parametrize("plan", [ZB_H1, ZB_H2], ids=lambda plan: plan.name)
def test_zero_bubble_plans_keep_their_price_when_sends_wait_for_receives(plan):
    world = rendezvous.run_plan(plan, by_rank(plan, stages_of(plan)), SHAPE)
    assert max(device.clock() for device in world.devices) == price(plan).makespan


def test_phases_follow_each_other_without_overlap():
    plan = build("1f1b", 3, 6)
    world = rendezvous.run_plan(plan, by_rank(plan, stages_of(plan)), SHAPE, latency=0.25)
    for device in world.devices:
        events = device.trace.events()
        for before, after in pairwise(events):
            assert before.device_end <= after.device_start
            assert before.wall_end <= after.wall_start


def test_a_result_of_the_wrong_shape_is_refused_with_action_and_rank():
    plan = build("1f1b", 2, 1)
    with pytest.raises(ValueError, match=r"F0 of stage rank 0 gave float64\(3, 5\) for its neigh"):
        rendezvous.run_plan(plan, by_rank(plan, stages_of(plan)), (3, 6))


def test_a_stage_without_a_result_is_refused():
    plan = build("1f1b", 2, 1)
    stages = stages_of(plan)
    stages[0].last = True
    with pytest.raises(ValueError, match="F0 of stage rank 0 gave nothing for its neighbour"):
        rendezvous.run_plan(plan, by_rank(plan, stages), SHAPE)


def test_another_number_of_chunks_is_refused():
    plan = INTERLEAVED[0]
    member = rendezvous.Member(rendezvous.World(2), 0)
    with pytest.raises(ValueError, match="has 2 chunks a rank, 1 came"):
        run(plan, member, stages_of(plan)[:1], shape=SHAPE)


def test_the_group_of_these_tests_notices_a_deadlock():
    def both_send_first(member):
        other = 1 - member.rank
        member.batch_send_recv([("send", np.zeros(1), other, 0)])
        member.batch_send_recv([("recv", np.zeros(1), other, 0)])

    with pytest.raises(rendezvous.Deadlock):
        rendezvous.run_on_all(rendezvous.World(2), both_send_first)
