import math

import numpy as np
import pytest

from parallel.layout import Layout, mesh
from parallel.pipeline import build, check, parse, run

pytestmark = pytest.mark.usefixtures("hcom_world")

SHAPE = (2, 3)
INTERLEAVED_2_2_4 = """interleaved stages=2 micro_batches=4 virtual=2
0: F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3
1: F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3"""


class Scale:
    """A stage y = w x with w = index + 2; micro-batch i starts as i + 1; the loss is the output."""

    def __init__(self, index, depth):
        self.first, self.last = index == 0, index == depth - 1
        self.w, self.gradient, self.outputs, self.saved = index + 2.0, 0.0, {}, {}

    def forward(self, micro_batch, x):
        x = np.full(SHAPE, micro_batch + 1.0) if self.first else x
        self.saved[micro_batch] = x
        self.outputs[micro_batch] = self.w * x
        return None if self.last else self.outputs[micro_batch]

    def backward_input(self, micro_batch, dy):
        dy = np.ones(SHAPE) if self.last else dy
        self.saved[micro_batch] = self.saved[micro_batch], dy
        return self.w * dy

    def backward_weight(self, micro_batch):
        x, dy = self.saved.pop(micro_batch)
        self.gradient += float((x * dy).sum())


def run_here(plan, group):
    check(plan)
    places = [plan.virtual_stage(group.rank, chunk) for chunk in range(plan.virtual)]
    chunks = [Scale(place, plan.depth) for place in places]
    run(plan, group, chunks, shape=SHAPE, dtype="float64")
    return dict(zip(places, chunks, strict=True))


def assert_right(plan, chunks):
    product = math.factorial(plan.depth + 1)  # of all weights: 2, 3, ..., depth + 1
    inputs = sum(range(1, plan.micro_batches + 1))
    for place, chunk in chunks.items():
        assert chunk.gradient == math.prod(SHAPE) * inputs * product / chunk.w
        for micro_batch, y in chunk.outputs.items():
            np.testing.assert_array_equal(y, (micro_batch + 1) * math.factorial(place + 2))


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 8])
def test_a_pipeline_over_all_ranks_gives_the_serial_gradients(hcom_world, name, micro_batches):
    plan = build(name, hcom_world.rank_size(), micro_batches)
    here = mesh(Layout(pp=hcom_world.rank_size()))
    assert_right(plan, run_here(plan, here.pp))


@pytest.mark.ranks(2)
def test_two_ranks_with_two_chunks_each_never_swap_messages():
    plan = parse(INTERLEAVED_2_2_4)
    here = mesh(Layout(pp=2))
    for _ in range(20):
        assert_right(plan, run_here(plan, here.pp))


@pytest.mark.ranks(4)
def test_two_pipelines_run_beside_each_other():
    plan = build("1f1b", 2, 4)
    here = mesh(Layout(pp=2, sp=2))
    assert_right(plan, run_here(plan, here.pp))


def test_groups_of_a_mesh_have_the_ranks_and_order_of_the_layout(hcom_world):
    size, rank = hcom_world.rank_size(), hcom_world.rank()
    layout = Layout(pp=2 if size % 2 == 0 else 1, dp=size // (2 if size % 2 == 0 else 1))
    here = mesh(layout)
    for name, axes in (("pp", "pp"), ("dp", "dp"), ("sp", "sp"), ("dp_sp", ("dp", "sp"))):
        group = getattr(here, name)
        expected = next(ranks for ranks in layout.groups(axes) if rank in ranks)
        assert list(group.ranks) == expected
        total = group.all_reduce(np.array([float(rank)]))
        assert total == sum(expected)
