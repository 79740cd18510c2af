import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcom.device import Event, Trace
from hcom.device import trace as trace_module
from hcom.device.trace import KINDS

RECORD = 80  # bytes an event takes

times = st.floats(0, 1e6, allow_nan=False)
events = st.builds(
    Event,
    stream=st.sampled_from(["compute", "phase", "comm:world"]),
    name=st.text(max_size=8),
    kind=st.sampled_from(KINDS),
    wall_start=times,
    wall_end=times,
    device_start=times,
    device_end=times,
    nbytes=st.integers(0, 1 << 50),
    group=st.sampled_from(["", "world", "tp"]),
    sequence=st.integers(-1, 1 << 40),
    peer=st.integers(-1, 1 << 20),
    flow=st.integers(0, (1 << 64) - 1),
    step=st.integers(-1, 1 << 30),
    dtype=st.sampled_from(["", "float32"]),
    reduce_op=st.sampled_from(["", "sum"]),
    ranks=st.just(()),
)


def record(trace, event):
    values = event._asdict()
    del values["ranks"]
    positional = [values.pop(f) for f in Event._fields if f not in ("kind", *Event._field_defaults)]
    trace.record(*positional, **values)


def mark(trace, name, step=None):
    trace.record("compute", name, 0.0, 1.0, 0.0, 1.0, step=step)


@given(st.lists(events, max_size=12))
def test_what_was_recorded_comes_back(recorded):
    trace = Trace(12 * RECORD)
    for event in recorded:
        record(trace, event)
    assert trace.events() == recorded
    assert trace.dropped == 0


@given(st.lists(events, max_size=12))
def test_a_trace_travels_as_msgpack(recorded):
    trace = Trace(12 * RECORD)
    for event in recorded:
        record(trace, event)
    sent = msgpack.unpackb(msgpack.packb(trace.to_message()))
    assert Trace.from_message(sent) == recorded


def test_events_of_a_group_know_its_ranks_also_after_travelling():
    trace = Trace(10 * RECORD)
    trace.groups["tp"] = (1, 3)
    trace.record("comm:tp", "all_reduce", 0.0, 1.0, 0.0, 1.0, kind="collective", group="tp")
    (event,) = trace.events()
    assert event.ranks == (1, 3)
    assert Trace.from_message(trace.to_message()) == [event]


def test_a_message_of_another_form_is_refused():
    with pytest.raises(ValueError, match=r"format 1 is needed, got 2"):
        Trace.from_message({**Trace(RECORD).to_message(), "format": 2})


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10, 13])
def test_a_full_ring_drops_the_oldest_and_says_how_many(count):
    trace = Trace(5 * RECORD + 7)
    for number in range(count):
        mark(trace, str(number))
    assert [event.name for event in trace.events()] == [str(n) for n in range(count)][-5:]
    assert len(trace) == min(count, 5)
    assert trace.dropped == max(0, count - 5)


def test_the_default_ring_holds_16_mebibytes():
    assert Trace().capacity == (16 << 20) // RECORD


def test_a_ring_without_room_for_an_event_is_refused():
    with pytest.raises(ValueError, match="80 bytes or more, got 79"):
        Trace(79)


def test_events_carry_the_current_step_unless_they_state_one():
    trace = Trace(10 * RECORD)
    mark(trace, "before")
    trace.step = 4
    mark(trace, "inside")
    mark(trace, "other", step=2)
    assert [(e.name, e.step) for e in trace.events()] == [
        ("before", -1),
        ("inside", 4),
        ("other", 2),
    ]
    assert [e.name for e in trace.events(steps={4})] == ["inside"]
    assert [e.name for e in Trace.from_message(trace.to_message(steps=[2, -1]))] == [
        "before",
        "other",
    ]


def test_an_unknown_kind_is_refused_and_leaves_no_event():
    trace = Trace(10 * RECORD)
    with pytest.raises(ValueError, match="not 'oops'"):
        trace.record("compute", "x", 0.0, 0.0, 0.0, 0.0, kind="oops")
    assert len(trace) == 0


def test_names_without_end_share_one_entry_past_the_limit(monkeypatch):
    monkeypatch.setattr(trace_module._Names, "LIMIT", 5)
    trace = Trace(10 * RECORD)
    for number in range(6):
        mark(trace, str(number))
    assert [e.name for e in trace.events()] == [
        "0",
        "1",
        "(other)",
        "(other)",
        "(other)",
        "(other)",
    ]
