"""The trace of a rank: a bounded binary ring of events, each with wall and device times."""

import struct
from array import array
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

KINDS = ("op", "collective", "send", "recv", "wait", "phase")
CAPACITY = 16 << 20  # bytes
RECORDED, STEP = range(2)  # words that a kernel shares with the trace
OUTSIDE = -1  # the step number of events outside any step
FORMAT = 1  # version of the message form

# One event. The names are ids into the trace's list of strings.
_RECORD = struct.Struct("<ddddqqQiIiHHHHB3x")
_LAYOUT = np.dtype(
    [
        ("wall_start", "<f8"),
        ("wall_end", "<f8"),
        ("device_start", "<f8"),
        ("device_end", "<f8"),
        ("nbytes", "<i8"),
        ("sequence", "<i8"),
        ("flow", "<u8"),
        ("step", "<i4"),
        ("name", "<u4"),
        ("peer", "<i4"),
        ("stream", "<u2"),
        ("group", "<u2"),
        ("dtype", "<u2"),
        ("reduce_op", "<u2"),
        ("kind", "u1"),
        ("", "V3"),
    ]
)


class Event(NamedTuple):
    """One decoded event.

    Times are seconds: wall times of time.perf_counter(), device times of the rank's clocks.
    `ranks` are the members of `group` where the trace was told of them.
    """

    stream: str
    name: str
    kind: str
    wall_start: float
    wall_end: float
    device_start: float
    device_end: float
    nbytes: int = 0
    group: str = ""
    sequence: int = -1
    peer: int = -1
    flow: int = 0
    step: int = OUTSIDE
    dtype: str = ""
    reduce_op: str = ""
    ranks: tuple[int, ...] = ()


class _Kinds(dict[str, int]):
    """Kind -> its id; an unknown kind is refused."""

    def __missing__(self, kind: str) -> int:
        raise ValueError(f"an event is of a kind of {KINDS}, not {kind!r}")


_KIND_IDS = _Kinds({kind: number for number, kind in enumerate(KINDS)})


class _Names(dict[str, int]):
    """String -> id, given on first sight; past the limit new strings are all "(other)"."""

    LIMIT = 65_536  # what two bytes of a record can tell apart

    def __missing__(self, name: str) -> int:
        if len(self) >= self.LIMIT:
            return self["(other)"]
        return self.setdefault(name, len(self))


class Trace:
    """Keeps the newest events of a rank in a ring of fixed size.

    Parameters
    ----------
    capacity_bytes : size of the ring; an event takes 80 bytes.

    Attributes
    ----------
    groups : group name -> ranks of the world in it, filled by whoever makes groups.
    """

    def __init__(self, capacity_bytes: int = CAPACITY) -> None:
        self.capacity = capacity_bytes // _RECORD.size
        if self.capacity < 1:
            raise ValueError(f"a trace needs {_RECORD.size} bytes or more, got {capacity_bytes}")
        # Two words that stay where they are: collectives record from their kernel.
        self._words = array("q", [0, OUTSIDE])
        self.groups: dict[str, tuple[int, ...]] = {}
        self._ring = bytearray(self.capacity * _RECORD.size)
        self._names = _Names({"": 0, "(other)": 1})

    @property
    def step(self) -> int:
        """Number stamped on events that state none; -1 outside any step."""
        return self._words[STEP]

    @step.setter
    def step(self, to: int) -> None:
        self._words[STEP] = to

    @property
    def _recorded(self) -> int:
        return self._words[RECORDED]

    def record(
        self,
        stream: str,
        name: str,
        wall_start: float,
        wall_end: float,
        device_start: float,
        device_end: float,
        *,
        kind: str = "op",
        nbytes: int = 0,
        group: str = "",
        sequence: int = -1,
        peer: int = -1,
        flow: int = 0,
        step: int | None = None,
        dtype: str = "",
        reduce_op: str = "",
    ) -> None:
        """Record one event; the oldest one is overwritten when the ring is full.

        Parameters
        ----------
        stream : the track: "compute", "comm:<group name>" or "phase".
        name : what ran, for example "linear" or "all_reduce".
        wall_start, wall_end : time.perf_counter(), s.
        device_start, device_end : the device clock, s.
        kind : one of KINDS.
        nbytes : bytes of the operation.
        group, sequence : a collective's group and its number there: equal on all its ranks.
        peer : the other rank of a send or recv.
        flow : equal and not 0 at a send and its recv, which a timeline then joins by an arrow.
        step : the training step; `self.step` by default.
        dtype, reduce_op : data type and reduction of a collective.

        Raises
        ------
        ValueError : `kind` is not one of KINDS.
        """
        ids = self._names
        record = _RECORD.pack(
            wall_start,
            wall_end,
            device_start,
            device_end,
            nbytes,
            sequence,
            flow,
            self.step if step is None else step,
            ids[name],
            peer,
            ids[stream],
            ids[group],
            ids[dtype],
            ids[reduce_op],
            _KIND_IDS[kind],
        )
        # No call between these two lines, so that no other thread takes the same place.
        index = self._words[RECORDED]
        self._words[RECORDED] = index + 1
        start = index % self.capacity * _RECORD.size
        self._ring[start : start + _RECORD.size] = record

    def template(
        self, stream: str, name: str, nbytes: int, group: str, dtype: str, reduce_op: str
    ) -> bytes:
        """Pack a collective's record without times, sequence and step: a kernel fills them in."""
        ids = self._names
        texts = ids[stream], ids[group], ids[dtype], ids[reduce_op], _KIND_IDS["collective"]
        return _RECORD.pack(0, 0, 0, 0, nbytes, -1, 0, OUTSIDE, ids[name], -1, *texts)

    def addresses(self) -> tuple[int, int]:
        """Tell where the ring and the two words (RECORDED, STEP) are."""
        return np.frombuffer(self._ring, np.uint8).ctypes.data, self._words.buffer_info()[0]

    @property
    def dropped(self) -> int:
        """Number of events that were overwritten."""
        return max(0, self._recorded - self.capacity)

    def __len__(self) -> int:
        return min(self._recorded, self.capacity)

    def records(self, steps: Collection[int] | None = None) -> NDArray[np.void]:
        """Copy the events as a structured array in the order of recording, or those of `steps`."""
        ring = np.frombuffer(self._ring, _LAYOUT)
        oldest = self._recorded % self.capacity if self.dropped else 0
        records = np.concatenate((ring[oldest : len(self)], ring[:oldest]))
        return records if steps is None else records[np.isin(records["step"], list(steps))]

    def events(self, steps: Collection[int] | None = None) -> list[Event]:
        """Decode the events in the order of recording, or those of the given step numbers."""
        return _decode(self.records(steps), list(self._names), self.groups)

    def to_message(self, steps: Collection[int] | None = None) -> dict[str, Any]:
        """Give the trace as plain bytes, numbers and strings, which msgpack can send."""
        return {
            "format": FORMAT,
            "records": self.records(steps).tobytes(),
            "names": list(self._names),
            "groups": {name: list(ranks) for name, ranks in self.groups.items()},
            "dropped": self.dropped,
        }

    @staticmethod
    def from_message(message: dict[str, Any]) -> list[Event]:
        """Decode the events of a message of `to_message`."""
        if message.get("format") != FORMAT:
            raise ValueError(f"a trace of format {FORMAT} is needed, got {message.get('format')!r}")
        records = np.frombuffer(message["records"], _LAYOUT)
        groups = {name: tuple(ranks) for name, ranks in message["groups"].items()}
        return _decode(records, message["names"], groups)


def _decode(
    records: NDArray[np.void], names: list[str], groups: dict[str, tuple[int, ...]]
) -> list[Event]:
    def named(column: str) -> list[str]:
        return [names[i] for i in records[column].tolist()]

    columns = {f: records[f].tolist() for f in Event._fields if f in (_LAYOUT.names or ())}
    columns |= {f: named(f) for f in ("stream", "name", "group", "dtype", "reduce_op")}
    columns["kind"] = [KINDS[i] for i in columns["kind"]]
    columns["ranks"] = [groups.get(name, ()) for name in columns["group"]]
    return [Event(*values) for values in zip(*(columns[f] for f in Event._fields), strict=True)]
