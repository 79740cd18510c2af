"""A call that has run before takes a short way: it must do and refuse what the first one did."""

import numpy as np
import pytest

from hcom.device import Device, current, install, load_profile
from hcom.executor import again
from hcom.prepared import POSSIBLE

pytestmark = pytest.mark.usefixtures("hcom_world")


@pytest.fixture
def group(hcom_world):
    return hcom_world.new_group(range(hcom_world.rank_size()))


def test_this_pythons_arrays_have_headers_that_kernels_can_read():
    assert POSSIBLE
    assert again.headers_are_known()


def test_later_calls_give_what_the_first_gives(group):
    rank, size = group.rank, group.rank_size
    for number in range(4):
        x = np.full((3, 5), rank + number, np.float32)
        assert (group.all_reduce(x) == size * number + size * (size - 1) / 2).all()
        assert (x == rank + number).all()
        assert (group.all_reduce(x, out=x) == size * number + size * (size - 1) / 2).all()
        assert group.all_reduce(x, "max").dtype == np.float32
        root = size - 1
        reduced = group.reduce(x, root)
        assert (reduced is None) == (rank != root)
        assert group.all_gather(np.full(2, rank)).tolist() == np.repeat(range(size), 2).tolist()
        assert group.all_reduce(np.array(2.0)).shape == ()


def test_an_average_is_divided_every_time(group):
    x = np.full(4, group.rank, np.float32)
    for _ in range(3):
        assert (group.all_reduce(x, "avg") == (group.rank_size - 1) / 2).all()


def test_arrays_that_are_not_contiguous_go_the_general_way(group):
    size = group.rank_size
    wide = np.arange(12.0).reshape(3, 4)
    for _ in range(3):
        square = wide[:, :2]
        assert np.array_equal(group.all_reduce(np.ascontiguousarray(square)), size * square)
        assert np.array_equal(group.all_reduce(square), size * square)
        target = np.zeros((3, 4))
        group.all_reduce(np.ascontiguousarray(square), out=target[:, 1:3])
        assert np.array_equal(target[:, 1:3], size * square)
        assert not target[:, [0, 3]].any()


def test_wrong_outputs_are_refused_every_time(group):
    x = np.ones(8)
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    memory = np.ones(12)
    for _ in range(3):
        group.all_reduce(x)
        for out, error in (
            (np.zeros(9), "shape"),
            (frozen, "read-only"),
            ([0.0] * 8, "numpy array"),
            (np.zeros(8, np.float32), "type"),
        ):
            with pytest.raises((ValueError, TypeError), match=error):
                group.all_reduce(x, out=out)
        with pytest.raises(ValueError, match="overlaps"):
            group.all_reduce(memory[:8], out=memory[4:])
        square = np.ones((group.rank_size, 2))
        group.all_to_all(square)
        with pytest.raises(ValueError, match="in place"):
            group.all_to_all(square, out=square)
    assert (group.all_reduce(memory[:8], out=memory[:8]) == group.rank_size).all()


def test_the_short_way_leaves_the_events_clocks_and_counters_of_the_general_one(group, hcom_world):
    x = np.ones(1024, np.float32)  # equal chunks: all ranks end together
    before = current()
    group.barrier()
    device = install(Device(load_profile("ascend910b")))
    try:
        device.trace.step = 7
        for _ in range(3):
            group.all_reduce(x, "max", algorithm="ring")
        events = device.trace.events()
        lengths = [event.device_end - event.device_start for event in events]
        assert lengths == pytest.approx([lengths[0]] * 3, rel=1e-9)
        assert device.clock() == events[-1].device_end == device.compute_time
        first, *later = (
            event._replace(wall_start=0, wall_end=0, device_start=0, device_end=0, sequence=0)
            for event in events
        )
        assert later == [first, first]
        numbers = [event.sequence for event in events]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        assert all(event.wall_start < event.wall_end for event in events)
    finally:
        install(before)
    record = next(
        r for r in hcom_world.statistics() if (r.group, r.algorithm) == (group.name, "ring")
    )
    assert (record.calls, record.bytes) == (3, 3 * x.nbytes)
    assert record.wall_s > 0


def test_a_new_device_gets_the_events_of_calls_prepared_before(group):
    x = np.ones(10)
    group.all_reduce(x)
    before = current()
    device = install(Device(load_profile("ascend910b")))
    try:
        recorded = len(before.trace)
        group.all_reduce(x)
        assert [event.name for event in device.trace.events()] == ["all_reduce"]
        assert len(before.trace) == recorded
    finally:
        install(before)


@pytest.mark.ranks(2, 4)
def test_a_mismatch_on_a_later_call_raises_on_every_rank(group, hcom_world):
    for _ in range(3):
        group.all_reduce(np.ones(6))
    group.all_reduce(np.ones(7))
    with pytest.raises(hcom_world.MismatchError, match="bytes=48"):
        group.all_reduce(np.ones(6 if group.rank else 7))
    with pytest.raises(hcom_world.HcomError, match="unusable"):
        group.all_reduce(np.ones(6))


def test_a_prepared_call_waits_behind_operations_under_way(hcom_world):
    """In groups that come and go: a new one may stand in memory where an old one stood."""
    size = hcom_world.rank_size()
    for _ in range(10):
        group = hcom_world.new_group(range(size))
        x = np.ones(100_000)
        group.all_reduce(x)
        work = group.all_reduce(x, out=x, async_op=True)
        assert (group.all_reduce(x) == size * size).all()
        work.wait()
