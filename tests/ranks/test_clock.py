"""The device clock: what a collective costs is what its schedule is priced at, on every run."""

import itertools

import numpy as np
import pytest

from hcom.algorithms import algorithms, build
from hcom.device import Device, current, install, load_profile
from hcom.schedule import COLLECTIVES, price
from hcom.shape_message import SHAPE_BYTES
from hcom.topology import from_profile

pytestmark = [pytest.mark.usefixtures("hcom_world"), pytest.mark.ranks(2, 4)]


@pytest.fixture
def device(hcom_world):
    """A fresh device, so that all clocks start at 0."""
    before = current()
    yield install(Device(load_profile("ascend910b")))
    install(before)


def clock_after(hcom, collective, algorithm, rows):
    """This rank's device clock after one call that all ranks begin at 0, and the bytes of it."""
    size, rank = hcom.rank_size(), hcom.rank()
    whole = collective in ("all_reduce", "broadcast", "reduce")
    x = np.ones(rows if whole else rows * size, np.float32)
    brings = {"all_gather": x[:rows], "gather": x[:rows], "scatter": x if rank == 0 else None}
    hcom.barrier()
    install(Device(load_profile("ascend910b")))
    getattr(hcom, collective)(brings.get(collective, x), algorithm=algorithm)
    return current().clock(), x.nbytes


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_equal_entry_clocks_give_exactly_the_price(hcom_world, device, collective):
    size, rank = hcom_world.rank_size(), hcom_world.rank()
    topology = from_profile(device.profile, [size])
    wrong = []
    for algorithm, rows in itertools.product(algorithms(collective), [1, 5000, 200_000]):
        clock, nbytes = clock_after(hcom_world, collective, algorithm, rows)
        expected = price(build(collective, algorithm, size), topology, nbytes).rank_end[rank]
        if collective == "scatter":  # the block's shape is broadcast before
            shape = price(build("broadcast", "mesh", size), topology, SHAPE_BYTES).rank_end[rank]
            right = clock >= expected + shape - 1e-12
        else:
            right = clock == expected
        if not right:
            wrong.append((algorithm, rows, clock, expected))
    assert wrong == []


def test_a_late_rank_delays_the_others_on_the_device_clock(hcom_world, device):
    hcom, size, rank = hcom_world, hcom_world.rank_size(), hcom_world.rank()
    x = np.ones(1000, np.float32)
    alone = price(build("all_reduce", "mesh", size), from_profile(device.profile, [size]), x.nbytes)
    device.join(1.0 if rank == size - 1 else 0.0)
    hcom.all_reduce(x, algorithm="mesh")
    assert current().clock() == pytest.approx(1.0 + alone.time, rel=1e-12)


def test_a_message_arrives_after_its_link_has_carried_it(hcom_world, device):
    hcom, rank = hcom_world, hcom_world.rank()
    x = np.ones(100_000, np.float32)
    link = device.profile.within_server
    if rank == 0:
        device.join(0.5)
        hcom.send(x, 1)
    elif rank == 1:
        hcom.recv(x, 0)
    if rank < 2:
        assert device.clock() == 0.5 + link.alpha + x.nbytes * link.beta


def test_both_ends_of_a_message_leave_events_of_one_flow(hcom_world, device):
    hcom, rank = hcom_world, hcom_world.rank()
    x = np.full(10, rank, np.float32)
    if rank < 2:
        group_events = device.trace.events()
        assert group_events == []
        hcom.send_recv(x, 1 - rank, np.zeros(10, np.float32), 1 - rank)
        events = {event.kind: event for event in device.trace.events()}
        flows = np.array([events["send"].flow, events["recv"].flow], np.uint64)
        assert flows.all()
        assert events["send"].peer == 1 - rank
    else:
        flows = np.zeros(2, np.uint64)
    everyones = hcom.all_gather(flows).reshape(-1, 2)
    assert everyones[0, 0] == everyones[1, 1]
    assert everyones[1, 0] == everyones[0, 1]


def test_a_collectives_event_carries_what_pairs_it_over_the_ranks(hcom_world, device):
    hcom = hcom_world
    group = hcom.new_group(range(hcom.rank_size()))
    group.all_reduce(np.ones(6, np.float32), "max")
    event = device.trace.events()[-1]
    assert (event.kind, event.name, event.group) == ("collective", "all_reduce", group.name)
    assert (event.nbytes, event.dtype, event.reduce_op) == (24, "fp32", "max")
    everyones = hcom.all_gather(np.array([event.sequence]))
    assert len(set(everyones.tolist())) == 1


def test_statistics_count_calls_bytes_and_both_times(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    group = hcom.new_group(range(size))
    for _ in range(3):
        group.all_reduce(np.ones(100, np.float32), algorithm="ring")
    record = next(r for r in hcom.statistics() if (r.group, r.algorithm) == (group.name, "ring"))
    assert (record.collective, record.calls, record.bytes) == ("all_reduce", 3, 1200)
    assert record.wall_s > 0
    assert record.device_s > 0
