"""Training split over ranks is the training of one rank, in every layout."""

from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from hcom.device import current
from hcom.world import world
from parallel import resume, training
from parallel.findings import gather_collectives, gather_events
from parallel.layout import mesh
from parallel.messages import broadcast_bytes, gather_bytes
from parallel.training import Training
from parallel.verify import Verification, VerifyError, one_rank_mesh
from tests.parallel.tiny import tiny_config

SIZE = MPI.COMM_WORLD.size
STEPS = 4

LAYOUTS = [
    {"pp": 2},
    {"sp": 2},
    {"dp": 2},
    {"pp": 2, "sp": 2},
    {"pp": 4},
    {"sp": 4},
    {"dp": 4},
    {"pp": 2, "dp": 2},
    {"dp": 2, "sp": 2},
]
HERE = [layout for layout in LAYOUTS if np.prod(list(layout.values())) == SIZE]

pytestmark = pytest.mark.ranks(2, 4)


def shared(path):
    """Rank 0's path, on all ranks."""
    return Path(broadcast_bytes(str(path).encode(), world().group).decode())


@pytest.mark.parametrize("layout", HERE, ids=str)
def test_losses_and_gradients_are_those_of_one_npu(hcom_world, layout):
    config = tiny_config(**layout)
    split = Training(config, mesh(config.layout))
    verification = Verification(config, STEPS, world().group)
    for step in range(1, STEPS + 1):
        verification.compare(step, split.step(step), split)  # raises where anything is off
    if hcom_world.rank() == 0:
        assert verification.loss_difference is not None
        assert verification.gradient_difference is not None
        if "dp" not in layout and "sp" not in layout:  # the same sums in the same order
            assert verification.loss_difference == verification.gradient_difference == 0.0


@pytest.mark.parametrize("layout", HERE, ids=str)
def test_the_norm_of_the_gradient_is_over_all_stages(hcom_world, layout):
    config = tiny_config(**layout)
    whole = Training(config, one_rank_mesh())
    split = Training(config, mesh(config.layout))
    for step in (1, 2):
        whole.step(step)
        norm = np.linalg.norm(whole.parameters.gradients.astype(np.float64))
        assert split.step(step).gradient_norm == pytest.approx(norm, rel=2e-6)


@pytest.mark.parametrize("layout", HERE, ids=str)
def test_a_score_is_that_of_one_npu(hcom_world, layout):
    config = tiny_config(**layout)
    text = np.arange(11 * config.model.sequence + 5, dtype=np.uint8)
    whole = Training(config, one_rank_mesh())
    split = Training(config, mesh(config.layout))
    assert split.evaluate(text) == pytest.approx(whole.evaluate(text), rel=2e-6)


@pytest.mark.parametrize("layout", [layout for layout in HERE if layout.keys() - {"pp"}], ids=str)
def test_gradients_that_are_not_reduced_are_found_out(hcom_world, layout, monkeypatch):
    monkeypatch.setattr(training, "reduce_gradients", lambda parameters, group: None)
    config = tiny_config(**layout)
    split = Training(config, mesh(config.layout))
    verification = Verification(config, 1, world().group)
    with pytest.raises(VerifyError, match="the gradient of embedding in step 1"):
        verification.compare(1, split.step(1), split)


def test_ranks_that_hold_the_same_weights_keep_them_equal_to_the_bit(hcom_world):
    config = tiny_config(dp=SIZE)
    split = Training(config, mesh(config.layout))
    for step in range(1, 4):
        split.step(step)
    values = hcom_world.all_gather(split.parameters.values).reshape(SIZE, -1)
    for other in values[1:]:
        np.testing.assert_array_equal(other, values[0])


def test_a_resumed_run_goes_on_bit_for_bit(hcom_world, tmp_path):
    root = shared(tmp_path)
    config = tiny_config(**HERE[0])
    places = mesh(config.layout)
    whole = Training(config, places)
    expected = [whole.step(step) for step in (1, 2, 3)]
    resume.save(root / "checkpoints", 3, whole, world().group)
    expected += [whole.step(step) for step in (4, 5)]

    after = Training(config, places)
    begin = resume.Begin.load(root, hcom_world.rank(), config)
    begin.restore(after)
    assert [after.step(step) for step in (4, 5)] == expected[3:]
    np.testing.assert_array_equal(after.parameters.values, whole.parameters.values)
    np.testing.assert_array_equal(after.optimizer.m, whole.optimizer.m)
    np.testing.assert_array_equal(after.optimizer.v, whole.optimizer.v)


def test_every_rank_gets_the_bytes_of_rank_0(hcom_world):
    here = b"x" * (1000 * (hcom_world.rank() + 1))
    assert broadcast_bytes(here, world().group) == b"x" * 1000


def test_rank_0_gets_the_bytes_of_every_rank(hcom_world):
    rows = gather_bytes(bytes([hcom_world.rank()]) * hcom_world.rank() + b"!", world().group)
    expected = [bytes([rank]) * rank + b"!" for rank in range(SIZE)]
    assert rows == (expected if hcom_world.rank() == 0 else [])


def test_events_and_statistics_of_all_ranks_come_to_rank_0(hcom_world):
    config = tiny_config(pp=SIZE)
    split = Training(config, mesh(config.layout))
    current().trace.step = 77
    split.step(1)
    current().trace.step = -1
    events, collectives = gather_events({77}, world().group), gather_collectives(world().group)
    if hcom_world.rank() != 0:
        assert (events, collectives) == ({}, [])
        return
    assert list(events) == list(range(SIZE))
    for row in events.values():
        phases = [event.name for event in row if event.kind == "phase"]
        assert sorted(phases)[:4] == ["B0", "B1", "F0", "F1"]
    assert {"pp", "world"} <= {row["group"] for row in collectives}
