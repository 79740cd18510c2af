"""What hcom-run and its ranks share while a job runs: a folder of named pipes.

launch/rank.py lists them; it is the other end.
"""

import os
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from launch.streams import Stream


class Event(NamedTuple):
    """A line from a rank's guard."""

    kind: str
    """`started`, `mapped` or `ended`."""
    rank: int
    value: str
    """A process, a file in shared memory, or an exit status (negative: the signal)."""


class Channel:
    """hcom-run's end of the pipes of one job."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder = folder
        for name in ("alive", "events"):
            os.mkfifo(folder / name)
        # Opened for both directions: a pipe never runs out of writers, nor an open of readers.
        self._alive = os.open(folder / "alive", os.O_RDWR)
        self.events = os.open(folder / "events", os.O_RDWR | os.O_NONBLOCK)
        self._unfinished = b""
        self.streams = [
            self._stream(rank, suffix, sink)
            for rank in range(ranks)
            for suffix, sink in (("out", 1), ("err", 2))
        ]

    def _stream(self, rank: int, suffix: str, sink: int) -> Stream:
        """Make one output of a rank: a terminal for rank 0 where we have one, for progress bars."""
        path = self.folder / f"rank-{rank}.{suffix}"
        if rank == 0 and os.isatty(sink):
            source, terminal = os.openpty()
            termios.tcsetwinsize(terminal, termios.tcgetwinsize(sink))
            path.symlink_to(os.ttyname(terminal))
            return Stream(source, sink, whole_lines=False)
        os.mkfifo(path)
        return Stream(os.open(path, os.O_RDWR), sink)

    def read_events(self) -> Iterator[Event]:
        """Give the events that have arrived."""
        try:
            text = self._unfinished + os.read(self.events, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._unfinished = text.split(b"\n")
        for line in lines:
            kind, rank, value = line.decode().split(" ", 2)
            yield Event(kind, int(rank), value)

    def hang_up(self) -> None:
        """Tell every guard to end its rank."""
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    def pass_on_rest(self, sink: int) -> None:
        """Pass on what the ranks wrote last to standard output (1) or error (2)."""
        for stream in self.streams:
            if stream.sink == sink:
                stream.close()
