"""A timeline file: the events of all ranks as a Chrome trace, which Perfetto opens.

A process is an NPU, a track a stream of it, an arrow a message. Format: "Trace Event Format"
(Chrome), and what Perfetto takes of it (google/perfetto, docs/getting-started/other-formats.md).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hcom.device.trace import Event
from hcom.device.tracks import Slice, Track, tracks

Clock = Literal["device", "wall"]

LIMIT = 20_000_000  # bytes: what a viewer in a browser still opens at once


def write_timeline(
    path: str | Path,
    events_by_rank: Mapping[int, Sequence[Event]],
    clock: Clock = "device",
    steps: int | Collection[int] = 3,
    *,
    world_size: int | None = None,
    notes: Mapping[str, object] | None = None,
    limit: int = LIMIT,
) -> Path:
    """Write a timeline; the file appears whole or not at all.

    Parameters
    ----------
    path : the file to write.
    events_by_rank : rank -> its events, as `Trace.events` or `Trace.from_message` give them.
    clock : which of the two times of each event to draw; the earliest one is 0.
    steps : the step numbers to draw, or how many of the newest.
    world_size : ranks of the run; the number of ranks given by default.
    notes : further entries of the file's "otherData", for example the profile's name.
    limit : largest size of the file, bytes; where it is not enough the newest events stay, and
        "otherData" says how many were left out.

    Returns
    -------
    The path of the file.

    Raises
    ------
    ValueError : `clock` is neither "device" nor "wall".
    """
    if clock not in ("device", "wall"):
        raise ValueError(f'a timeline is drawn on the "device" or the "wall" clock, not {clock!r}')
    chosen = _steps(events_by_rank, steps)
    slices = sorted(_slices(events_by_rank, clock, chosen), key=lambda s: s.start)
    header = {
        "displayTimeUnit": "ns",
        "distributedInfo": {
            "rank": min(events_by_rank, default=0),
            "world_size": len(events_by_rank) if world_size is None else world_size,
            "ranks": sorted(events_by_rank),
        },
        "otherData": {**(notes or {}), "clock": clock, "steps": sorted(chosen)},
    }
    return _write_whole(Path(path), _within(limit, header, slices))


def _steps(events_by_rank: Mapping[int, Sequence[Event]], steps: int | Collection[int]) -> set[int]:
    if not isinstance(steps, int):
        return set(steps)
    present = {event.step for events in events_by_rank.values() for event in events}
    return set(sorted(present)[-steps:]) if steps > 0 else set()


def _slices(
    events_by_rank: Mapping[int, Sequence[Event]], clock: Clock, steps: set[int]
) -> Iterator[Slice]:
    for rank, events in events_by_rank.items():
        for event in events:
            if event.step in steps:
                device = clock == "device"
                start = round(1e9 * (event.device_start if device else event.wall_start))
                end = round(1e9 * (event.device_end if device else event.wall_end))
                yield Slice(rank, start, max(start, end), event)


def _within(limit: int, header: dict[str, Any], slices: list[Slice]) -> bytes:
    """Render the newest slices that fit; the header says how many do not."""
    total = len(slices)
    while True:
        count = {"events": len(slices), "events_left_out": total - len(slices)}
        text = _render({**header, "otherData": {**header["otherData"], **count}}, slices)
        if len(text) <= limit or not slices:
            return text
        fitting = int(0.95 * len(slices) * limit / len(text))
        slices = slices[len(slices) - fitting :]


def _render(header: dict[str, Any], slices: Sequence[Slice]) -> bytes:
    origin = slices[0].start if slices else 0
    lines = tracks(slices)
    entries = [*_metadata(header["distributedInfo"]["ranks"], lines), *_drawn(lines, origin)]
    head = json.dumps(header, separators=(",", ":"))[:-1]
    body = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f'{head},"traceEvents":[\n{body}\n]}}\n'.encode()


def _metadata(ranks: Sequence[int], lines: Sequence[Track]) -> Iterator[dict[str, Any]]:
    for rank in ranks:
        yield _label(rank, 0, "process_name", {"name": f"NPU {rank}"})
        yield _label(rank, 0, "process_sort_index", {"sort_index": rank})
    for line in lines:
        yield _label(line.rank, line.number, "thread_name", {"name": line.name})
        yield _label(line.rank, line.number, "thread_sort_index", {"sort_index": line.number})


def _label(rank: int, track: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": rank, "tid": track, "name": name, "args": arguments}


def _drawn(lines: Sequence[Track], origin: int) -> Iterator[dict[str, Any]]:
    sends, recvs = _flows(lines, "send"), _flows(lines, "recv")
    arrows = {flow: number for number, flow in enumerate(sorted(sends & recvs), start=1)}
    for line in lines:
        place = {"pid": line.rank, "tid": line.number}
        for piece in line.slices:
            yield _complete(piece, origin) | place
            if piece.event.kind in ("send", "recv") and piece.event.flow in arrows:
                yield _arrow_end(piece, arrows[piece.event.flow], origin) | place


def _complete(piece: Slice, origin: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "ts": (piece.start - origin) / 1000,
        "dur": (piece.end - piece.start) / 1000,
        "name": piece.event.name,
        "cat": piece.event.kind,
        "args": _arguments(piece.event),
    }


def _arguments(event: Event) -> dict[str, Any]:
    arguments: dict[str, Any] = {"step": event.step}
    if event.kind == "collective":
        arguments |= {"op": event.name, "sequence": event.sequence}
    if event.kind in ("send", "recv"):
        arguments["peer"] = event.peer
    optional = {
        "group": event.group,
        "ranks": event.ranks,
        "bytes": event.nbytes,
        "dtype": event.dtype,
        "reduce_op": event.reduce_op,
    }
    always = ("group", "bytes", "dtype") if event.kind == "collective" else ()
    return arguments | {key: value for key, value in optional.items() if value or key in always}


def _flows(lines: Sequence[Track], kind: str) -> set[int]:
    return {
        piece.event.flow
        for line in lines
        for piece in line.slices
        if piece.event.kind == kind and piece.event.flow
    }


def _arrow_end(piece: Slice, number: int, origin: int) -> dict[str, Any]:
    """Give one end of an arrow: it leaves as the send starts and lands as the recv ends.

    An end binds to the slice that is open at its time, so it lands a nanosecond early.
    """
    leaves = piece.event.kind == "send"
    time = piece.start if leaves else max(piece.start, piece.end - 1)
    end: dict[str, Any] = {"ph": "s"} if leaves else {"ph": "f", "bp": "e"}
    return end | {"id": number, "ts": (time - origin) / 1000, "name": "message", "cat": "message"}


def _write_whole(path: Path, text: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(text)
    part.replace(path)
    return path
