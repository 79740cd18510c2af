"""What a process's communicators have done so far: calls, bytes and time on both clocks."""

from dataclasses import dataclass


@dataclass
class Record:
    """Totals of one kind of call.

    Attributes
    ----------
    group, collective, algorithm : which calls.
    calls : how many.
    bytes : bytes of the caller's data in all calls (its larger side).
    sent_bytes : bytes this rank sent to others.
    wall_s : time spent in the calls on this machine, s.
    device_s : their time on the device clock, s.
    """

    group: str
    collective: str
    algorithm: str
    calls: int = 0
    bytes: int = 0
    sent_bytes: int = 0
    wall_s: float = 0.0
    device_s: float = 0.0

    def add(self, nbytes: int, sent_bytes: int, wall_s: float, device_s: float) -> None:
        """Count one call."""
        self.calls += 1
        self.bytes += nbytes
        self.sent_bytes += sent_bytes
        self.wall_s += wall_s
        self.device_s += device_s


class Statistics:
    """The records of a process, one for each (group, collective, algorithm)."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str, str], Record] = {}

    def of(self, group: str, collective: str, algorithm: str) -> Record:
        """Return the record of a kind of call, new if there is none."""
        key = (group, collective, algorithm)
        return self._records.setdefault(key, Record(*key))

    def records(self) -> list[Record]:
        """Return all records in the order of their first call."""
        return list(self._records.values())
