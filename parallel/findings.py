"""What the ranks recorded, gathered on rank 0 at the end of a run: traces and statistics."""

import string
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgpack

import hcom
from hcom.device import Event, Trace, current, write_timeline
from parallel.group import Group
from parallel.messages import gather_bytes
from parallel.report import highest


def gather_events(steps: Collection[int], world: Group) -> dict[int, list[Event]]:
    """Give rank 0 the events of some steps by rank; other ranks get an empty mapping."""
    payload = msgpack.packb(current().trace.to_message(steps))
    rows = gather_bytes(payload, world)
    return {rank: Trace.from_message(msgpack.unpackb(row)) for rank, row in enumerate(rows)}


def gather_collectives(world: Group) -> list[dict[str, Any]]:
    """Give rank 0 the statistics of all ranks, joined by axis, collective and algorithm."""
    rows = [
        {
            "group": row.group.rstrip(string.digits),
            "collective": row.collective,
            "algorithm": row.algorithm,
            "calls": row.calls,
            "bytes": row.bytes,
            "wall_s": row.wall_s,
            "device_s": row.device_s,
        }
        for row in hcom.statistics()
    ]
    payloads = gather_bytes(msgpack.packb(rows), world)
    return highest(row for payload in payloads for row in msgpack.unpackb(payload))


def write_timelines(
    run_dir: Path, events_by_rank: dict[int, list[Event]], steps: Collection[int]
) -> dict[str, Path]:
    """Write the timeline on both clocks."""
    notes = {"profile": current().profile.name}
    device, wall = run_dir / "timeline.json", run_dir / "timeline.wall.json"
    write_timeline(device, events_by_rank, "device", steps, notes=notes)
    write_timeline(wall, events_by_rank, "wall", steps, notes=notes)
    return {"timeline (device)": device, "timeline (wall)": wall}
