import json
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcom.device import Event, write_timeline

MICRO = 1e-6


def event(stream, name, start, end, kind="op", **more):
    """An event on [start, end] us of the device clock, and from 100 s on the wall clock."""
    wall = [100 + 2 * t * MICRO for t in (start, end)]
    return Event(stream, name, kind, *wall, start * MICRO, end * MICRO, **more)


def collective(group, sequence, start, end, **more):
    return event(
        f"comm:{group}",
        "all_reduce",
        start,
        end,
        "collective",
        group=group,
        sequence=sequence,
        **more,
    )


def document(path):
    return json.loads(path.read_text())


def drawn(trace):
    return [entry for entry in trace["traceEvents"] if entry["ph"] == "X"]


def by_track(entries):
    tracks = defaultdict(list)
    for entry in entries:
        tracks[entry["pid"], entry["tid"]].append(entry)
    return tracks


def track_names(trace):
    return {
        (entry["pid"], entry["tid"]): entry["args"]["name"]
        for entry in trace["traceEvents"]
        if entry["name"] == "thread_name"
    }


def partial_overlaps(trace):
    """Pairs of slices of one track that overlap without one holding the other, in whole ns."""

    def bounds(entry):
        start = round(entry["ts"] * 1000)
        return start, start + round(entry["dur"] * 1000)

    return [
        (a["name"], b["name"])
        for entries in by_track(drawn(trace)).values()
        for i, a in enumerate(entries)
        for b in entries[i + 1 :]
        for (s1, e1), (s2, e2) in [sorted((bounds(a), bounds(b)))]
        if s1 < s2 < e1 < e2
    ]


def enclosing(trace, arrow):
    """The innermost slice that a viewer binds the end of an arrow to."""
    slices = [
        entry
        for entry in by_track(drawn(trace))[arrow["pid"], arrow["tid"]]
        if entry["ts"] <= arrow["ts"] < entry["ts"] + entry["dur"]
    ]
    return min(slices, key=lambda entry: entry["dur"])


def test_the_checker_finds_a_partial_overlap():
    def slices(*spans):
        return {
            "traceEvents": [
                {"ph": "X", "pid": 0, "tid": 1, "name": f"{s}-{e}", "ts": s, "dur": e - s}
                for s, e in spans
            ]
        }

    assert partial_overlaps(slices((0, 2), (1, 3))) == [("0-2", "1-3")]
    assert partial_overlaps(slices((1, 3), (0, 2))) == [("1-3", "0-2")]
    assert not partial_overlaps(slices((0, 4), (1, 3), (3, 4), (4, 6), (4, 4)))


def test_each_npu_is_a_process_in_rank_order(tmp_path):
    trace = document(write_timeline(tmp_path / "t.json", {r: [] for r in (2, 0, 10)}))
    names = [e for e in trace["traceEvents"] if e["name"] == "process_name"]
    order = [e for e in trace["traceEvents"] if e["name"] == "process_sort_index"]
    assert [(e["pid"], e["args"]["name"]) for e in names] == [
        (0, "NPU 0"),
        (2, "NPU 2"),
        (10, "NPU 10"),
    ]
    assert [(e["pid"], e["args"]["sort_index"]) for e in order] == [(0, 0), (2, 2), (10, 10)]


def test_the_file_says_which_ranks_it_holds(tmp_path):
    one = document(write_timeline(tmp_path / "1.json", {3: []}, world_size=4))
    assert one["distributedInfo"] == {"rank": 3, "world_size": 4, "ranks": [3]}
    whole = document(write_timeline(tmp_path / "all.json", {0: [], 1: []}))
    assert whole["distributedInfo"] == {"rank": 0, "world_size": 2, "ranks": [0, 1]}


def test_tracks_are_the_phases_then_compute_then_each_group(tmp_path):
    events = [
        collective("tp", 0, 0, 1),
        event("compute", "linear", 0, 1),
        collective("dp", 0, 0, 1),
        event("phase", "F0", 0, 1, "phase"),
    ]
    trace = document(write_timeline(tmp_path / "t.json", {0: events}))
    names = track_names(trace)
    assert [names[key] for key in sorted(names)] == ["phase", "compute", "comm:dp", "comm:tp"]


def test_metadata_comes_first_and_slices_by_time_within_a_track(tmp_path):
    events = [event("compute", str(t), t, t + 1) for t in (5, 1, 3)]
    trace = document(write_timeline(tmp_path / "t.json", {0: events, 1: events}))
    kinds = [entry["ph"] for entry in trace["traceEvents"]]
    assert kinds == sorted(kinds)  # M before X
    for entries in by_track(drawn(trace)).values():
        assert [entry["ts"] for entry in entries] == [0, 2, 4]


def test_a_collective_that_overlaps_compute_lies_on_a_track_of_its_own(tmp_path):
    events = [
        event("compute", "a", 0, 4),
        collective("dp", 0, 2, 6),
        event("compute", "b", 4, 8),
        event("phase", "F0", 0, 8, "phase"),
    ]
    assert not partial_overlaps(document(write_timeline(tmp_path / "t.json", {0: events})))


def test_what_overlaps_in_part_moves_to_a_second_track_of_the_name(tmp_path):
    events = [event("compute", "a", 0, 4), event("compute", "b", 2, 6), event("compute", "c", 4, 5)]
    trace = document(write_timeline(tmp_path / "t.json", {0: events}))
    names = track_names(trace)
    places = {entry["name"]: names[entry["pid"], entry["tid"]] for entry in drawn(trace)}
    assert places == {"a": "compute", "b": "compute (2)", "c": "compute"}


def test_a_slice_inside_another_stays_on_its_track_whichever_was_recorded_first(tmp_path):
    inner, outer = event("phase", "F0", 0, 2, "phase"), event("phase", "step", 0, 9, "phase")
    for order in ([inner, outer], [outer, inner]):
        trace = document(write_timeline(tmp_path / "t.json", {0: order}))
        assert [entry["name"] for entry in drawn(trace)] == ["step", "F0"]
        assert len(by_track(drawn(trace))) == 1


spans = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1]))
streams = st.sampled_from(["compute", "phase", "comm:world"])


@given(st.lists(st.tuples(streams, spans), max_size=30))
def test_no_file_has_a_partial_overlap_and_none_loses_an_event(tmp_path_factory, placed):
    events = [event(stream, str(i), *span) for i, (stream, span) in enumerate(placed)]
    path = tmp_path_factory.mktemp("t") / "t.json"
    trace = document(write_timeline(path, {0: events}))
    assert not partial_overlaps(trace)
    assert sorted(e["name"] for e in drawn(trace)) == sorted(str(i) for i in range(len(placed)))
    names = track_names(trace)
    for entry in drawn(trace):
        stream = placed[int(entry["name"])][0]
        assert names[entry["pid"], entry["tid"]].startswith(stream)


def test_an_arrow_joins_a_send_to_the_recv_of_the_same_flow(tmp_path):
    flow = (7 << 40) + 5
    events = {
        0: [event("comm:pp", "send", 2, 6, "send", peer=1, flow=flow)],
        1: [
            event("comm:pp", "recv", 0, 6, "recv", peer=0, flow=flow),
            event("comm:pp", "recv", 6, 9, "recv", peer=0, flow=flow + 1),  # from outside the file
        ],
    }
    trace = document(write_timeline(tmp_path / "t.json", events))
    (start,) = [entry for entry in trace["traceEvents"] if entry["ph"] == "s"]
    (finish,) = [entry for entry in trace["traceEvents"] if entry["ph"] == "f"]
    assert start["id"] == finish["id"]
    assert (start["pid"], finish["pid"], finish["bp"]) == (0, 1, "e")
    assert (start["name"], start["cat"]) == (finish["name"], finish["cat"])
    sender, receiver = enclosing(trace, start), enclosing(trace, finish)
    assert (sender["name"], sender["args"]["peer"]) == ("send", 1)
    assert (receiver["name"], receiver["ts"], receiver["dur"]) == ("recv", 0, 6)


def test_arrows_of_a_combined_exchange_bind_each_to_its_own_slice(tmp_path):
    events = {
        rank: [
            event("comm:pp", "send", 0, 4, "send", peer=1 - rank, flow=1 + rank),
            event("comm:pp", "recv", 0, 4, "recv", peer=1 - rank, flow=2 - rank),
        ]
        for rank in (0, 1)
    }
    trace = document(write_timeline(tmp_path / "t.json", events))
    arrows = [entry for entry in trace["traceEvents"] if entry["ph"] in "sf"]
    assert len(arrows) == 4
    for arrow in arrows:
        assert enclosing(trace, arrow)["name"] == {"s": "send", "f": "recv"}[arrow["ph"]]


def test_collectives_are_paired_over_ranks_by_group_and_sequence(tmp_path):
    groups = {"tp0": (0, 1), "tp1": (2, 3), "dp0": (0, 2), "dp1": (1, 3)}
    events = {
        rank: [
            collective(
                group,
                n,
                10 * n,
                10 * n + 5,
                ranks=ranks,
                nbytes=64,
                dtype="float32",
                reduce_op="sum",
            )
            for group, ranks in groups.items()
            if rank in ranks
            for n in range(3)
        ]
        for rank in range(4)
    }
    trace = document(write_timeline(tmp_path / "t.json", events))
    members = defaultdict(set)
    for entry in drawn(trace):
        args = entry["args"]
        assert (args["op"], args["reduce_op"], args["bytes"], args["dtype"]) == (
            "all_reduce",
            "sum",
            64,
            "float32",
        )
        members[args["group"], args["sequence"]].add((entry["pid"], tuple(args["ranks"])))
    assert members == {
        (group, n): {(rank, ranks) for rank in ranks}
        for group, ranks in groups.items()
        for n in range(3)
    }


def test_waits_are_of_a_category_of_their_own(tmp_path):
    events = [event("compute", "linear", 0, 1), event("compute", "wait", 1, 2, "wait")]
    trace = document(write_timeline(tmp_path / "t.json", {0: events}))
    assert [entry["cat"] for entry in drawn(trace)] == ["op", "wait"]


def test_each_clock_gives_its_own_times_from_zero(tmp_path):
    events = {0: [event("compute", "a", 3, 5)], 1: [event("compute", "b", 7, 8)]}
    device = drawn(document(write_timeline(tmp_path / "d.json", events, "device")))
    wall = drawn(document(write_timeline(tmp_path / "w.json", events, "wall")))
    assert [(entry["ts"], entry["dur"]) for entry in device] == [(0, 2), (4, 1)]
    assert [(entry["ts"], entry["dur"]) for entry in wall] == [(0, 4), (8, 2)]


def test_another_clock_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not 'cpu'"):
        write_timeline(tmp_path / "t.json", {}, "cpu")
    assert not list(tmp_path.iterdir())


def test_slices_that_touch_still_touch_an_hour_into_a_run(tmp_path):
    borders = [3600.0 + number * 1.7e-6 / 3 for number in range(50)]
    events = [
        Event("compute", "op", "op", 0.0, 0.0, start, end) for start, end in pairwise(borders)
    ]
    trace = document(write_timeline(tmp_path / "t.json", {0: events}))
    assert len(by_track(drawn(trace))) == 1
    for entry, following in pairwise(drawn(trace)):
        end = round(entry["ts"] * 1000) + round(entry["dur"] * 1000)
        assert end == round(following["ts"] * 1000)
    assert drawn(trace)[-1]["ts"] == pytest.approx(48 * 1.7 / 3, abs=1.1e-3)


def test_the_staircase_of_a_pipeline_is_read_down_the_ranks(tmp_path):
    events = {
        rank: [event("phase", f"F{m}", rank + m, rank + m + 1, "phase") for m in range(4)]
        for rank in range(4)
    }
    trace = document(write_timeline(tmp_path / "t.json", events))
    names = track_names(trace)
    assert {names[rank, 1] for rank in range(4)} == {"phase"}
    starts = [e["ts"] for e in drawn(trace) if e["name"] == "F0"]
    assert starts == [0, 1, 2, 3]


def steps_drawn(trace):
    return sorted({entry["args"]["step"] for entry in drawn(trace)})


def test_the_newest_three_steps_are_drawn_by_default(tmp_path):
    events = [event("compute", "op", t, t + 1, step=t) for t in range(-1, 9)]
    path = tmp_path / "t.json"
    assert steps_drawn(document(write_timeline(path, {0: events}))) == [6, 7, 8]
    assert steps_drawn(document(write_timeline(path, {0: events}, steps=1))) == [8]
    trace = document(write_timeline(path, {0: events}, steps=[2, 4]))
    assert steps_drawn(trace) == trace["otherData"]["steps"] == [2, 4]


def test_events_outside_any_step_are_drawn_where_there_are_no_steps(tmp_path):
    trace = document(write_timeline(tmp_path / "t.json", {0: [event("compute", "op", 0, 1)]}))
    assert len(drawn(trace)) == 1


def test_a_file_too_large_keeps_the_newest_and_says_so(tmp_path):
    events = {rank: [event("compute", str(t), t, t + 1) for t in range(500)] for rank in (0, 1)}
    path = write_timeline(tmp_path / "t.json", events, limit=40_000)
    assert 20_000 < path.stat().st_size <= 40_000
    trace = document(path)
    kept = len(drawn(trace))
    assert trace["otherData"]["events"] == kept
    assert trace["otherData"]["events_left_out"] == 1000 - kept
    oldest = min(int(entry["name"]) for entry in drawn(trace))
    assert abs(2 * (500 - oldest) - kept) <= 1


def test_a_limit_below_one_event_leaves_a_sound_file(tmp_path):
    path = write_timeline(tmp_path / "t.json", {0: [event("compute", "op", 0, 1)]}, limit=10)
    assert document(path)["otherData"]["events_left_out"] == 1


def test_a_run_of_one_rank_without_communication_gives_a_sound_file(tmp_path):
    trace = document(
        write_timeline(tmp_path / "deep" / "t.json", {0: []}, notes={"profile": "unit"})
    )
    assert drawn(trace) == []
    assert trace["otherData"]["profile"] == "unit"


def test_the_file_appears_whole_or_not_at_all(tmp_path):
    path = write_timeline(tmp_path / "t.json", {0: [event("compute", "op", 0, 1)]})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_timeline(path, {0: [event("compute", "op", 0, 1)]}, notes={"bad": object()})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
