"""A timeline file: the events of all ranks as a Chrome trace that Perfetto opens."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from hcom.device.trace import Event


def write_timeline(
    path: str | Path,
    events_by_rank: Mapping[int, Sequence[Event]],
    clock: Literal["device", "wall"] = "device",
    steps: int | Collection[int] = 3,
) -> Path:
    """Write a timeline."""
    raise NotImplementedError
