"""What a process's communicators have done so far: calls, bytes and time on both clocks."""

from array import array

# Places in a record's arrays.
CALLS, BYTES, SENT = range(3)
WALL, DEVICE = range(2)


class Record:
    """Totals of one kind of call.

    Parameters
    ----------
    group, collective, algorithm : which calls.

    Attributes
    ----------
    counts : calls, bytes of the caller's data in all of them (its larger side), and bytes that
        this rank sent to others. Arrays that stay where they are: a call's kernel adds to them.
    times : s spent in the calls on this machine, and on the device clock.
    """

    def __init__(self, group: str, collective: str, algorithm: str) -> None:
        self.group, self.collective, self.algorithm = group, collective, algorithm
        self.counts = array("q", [0, 0, 0])
        self.times = array("d", [0.0, 0.0])

    @property
    def calls(self) -> int:
        """Number of calls."""
        return self.counts[CALLS]

    @property
    def bytes(self) -> int:
        """Bytes of the caller's data in all calls (its larger side)."""
        return self.counts[BYTES]

    @property
    def sent_bytes(self) -> int:
        """Bytes that this rank sent to others."""
        return self.counts[SENT]

    @property
    def wall_s(self) -> float:
        """Time spent in the calls on this machine, s."""
        return self.times[WALL]

    @property
    def device_s(self) -> float:
        """Time of the calls on the device clock, s."""
        return self.times[DEVICE]

    def add(self, nbytes: int, sent_bytes: int, wall_s: float, device_s: float) -> None:
        """Count one call."""
        self.counts[CALLS] += 1
        self.counts[BYTES] += nbytes
        self.counts[SENT] += sent_bytes
        self.times[WALL] += wall_s
        self.times[DEVICE] += device_s

    def __repr__(self) -> str:
        return (
            f"<{self.group} {self.collective} {self.algorithm}: {self.calls} calls, "
            f"{self.bytes} bytes, {self.wall_s:.6f} s wall, {self.device_s:.9f} s device>"
        )


class Statistics:
    """The records of a process, one for each (group, collective, algorithm)."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str, str], Record] = {}

    def of(self, group: str, collective: str, algorithm: str) -> Record:
        """Return the record of a kind of call, new if there is none."""
        key = (group, collective, algorithm)
        if key not in self._records:
            self._records[key] = Record(*key)
        return self._records[key]

    def records(self) -> list[Record]:
        """Return all records in the order of their first call."""
        return list(self._records.values())
