from time import perf_counter

import pytest

from hcom.device import Device, current, install, load_profile
from hcom.device import device as device_module


@pytest.fixture
def device():
    return Device(load_profile("ascend910b"))


@pytest.fixture
def no_device(monkeypatch):
    monkeypatch.setattr(device_module, "_current", None)


def run(device, flops=0, nbytes=0, **options):
    device.launch("operator", flops, nbytes, wall_start=perf_counter(), **options)


def test_arithmetic_bound_operators_cost_flops_over_peak(device):
    run(device, flops=1e12, nbytes=8)
    profile = device.profile
    assert device.compute_time == profile.launch + 1e12 / profile.peak("float32")


def test_memory_bound_operators_cost_bytes_over_bandwidth(device):
    run(device, flops=8, nbytes=10**9)
    assert device.compute_time == device.profile.launch + 1e9 / device.profile.bandwidth


def test_the_dtype_chooses_the_peak(device):
    run(device, flops=1e12, dtype="bfloat16")
    assert device.compute_time == pytest.approx(
        device.profile.launch + 1e12 / device.profile.peak("bfloat16")
    )


def test_each_launch_counts(device):
    run(device, launches=7)
    assert device.compute_time == 7 * device.profile.launch


@pytest.mark.parametrize("figures", [(-1, 0), (0, -1), (float("nan"), 0), (0, float("nan"))])
def test_a_cost_that_is_no_positive_figure_is_refused_before_the_clock_moves(device, figures):
    with pytest.raises(ValueError, match="operator operator states a cost"):
        run(device, *figures)
    assert device.compute_time == device.busy_time == 0
    assert len(device.trace) == 0


def test_busy_time_leaves_out_the_waiting(device):
    run(device, launches=1)
    device.join(1.0)
    run(device, launches=1)
    assert device.busy_time == pytest.approx(2 * device.profile.launch)
    assert device.compute_time == pytest.approx(1.0 + device.profile.launch)


def test_an_operator_leaves_an_event_on_both_clocks(device):
    before = perf_counter()
    run(device, flops=1e9, nbytes=4096)
    (event,) = device.trace.events()
    assert (event.stream, event.name, event.kind) == ("compute", "operator", "op")
    assert (event.nbytes, event.dtype) == (4096, "float32")
    assert (event.device_start, event.device_end) == (0, device.compute_time)
    assert before <= event.wall_start <= event.wall_end <= perf_counter()


def test_a_communication_starts_no_earlier_than_the_compute_it_was_issued_after(device):
    device.join(2.0)
    assert device.issue("comm:world") == 2.0


def test_communications_of_one_stream_follow_each_other(device):
    device.settle("comm:world", 5.0)
    assert device.issue("comm:world") == 5.0
    assert device.issue("comm:other") == 0.0


def test_compute_overlaps_a_communication_until_it_waits_for_it(device):
    device.settle("comm:world", device.issue("comm:world") + 3.0)
    run(device, launches=1)
    assert device.compute_time < 3.0
    device.join(3.0)
    assert device.compute_time == 3.0
    device.join(1.0)
    assert device.compute_time == 3.0


def test_the_clock_of_the_rank_is_its_latest_stream(device):
    assert device.clock() == 0
    device.settle("comm:a", 2.0)
    device.settle("comm:b", 1.0)
    assert device.clock() == 2.0
    device.join(4.0)
    assert device.clock() == 4.0


def test_aligning_moves_no_stream_back(device):
    device.settle("comm:early", 1.0)
    device.settle("comm:late", 9.0)
    device.align(5.0)
    assert device.compute_time == device.issue("comm:early") == 5.0
    assert device.issue("comm:late") == 9.0


def test_a_phase_brackets_the_operators_inside_it(device):
    run(device, launches=1)
    with device.phase("F", "F0"):
        run(device, launches=2)
    phase = device.trace.events()[-1]
    assert (phase.stream, phase.name, phase.kind) == ("phase", "F0", "phase")
    launch = device.profile.launch
    assert (phase.device_start, phase.device_end) == (launch, pytest.approx(3 * launch))


def test_phases_of_the_unit_profile_take_their_fixed_seconds():
    device = Device(load_profile("unit"))
    with device.phase("F", "F0"):
        run(device, flops=1e15, nbytes=10**15)
    assert device.compute_time == 1.0
    with device.phase("B", "B0"):
        run(device, flops=1e15, nbytes=10**15)
    assert device.compute_time == 3.0
    assert [e.device_end for e in device.trace.events() if e.kind == "phase"] == [1.0, 3.0]


def test_the_default_device_is_a_910b_and_stays_the_same(no_device):
    assert current().profile.name == "ascend910b"
    assert current() is current()


def test_an_installed_device_replaces_the_default(no_device):
    device = Device(load_profile("unit"))
    assert install(device) is device
    assert current() is device
