"""The ranks of a job on this host: their arenas, and whether they run, wait or have ended."""

import os
import select
import struct
import sys
from collections.abc import Sequence

from hcom.errors import HcomError
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.arena import Arena, ArenaName
from hcom.transport.atomics import add_int, fence
from hcom.transport.doorbell import ring, spins


@jit()
def _ring(header: int) -> None:
    fence()
    ring(header)


@jit()
def _take(word: int) -> int:
    return int(add_int(word, 1))


class Host:
    """The processes of a job on this host, as one of them sees them.

    Parameters
    ----------
    rank : own rank in the world.
    arena : own arena.
    names : every rank's arena, in the order of the world's ranks.

    Attributes
    ----------
    arenas : every rank's arena, as mapped here.
    spin_limit : looks of a waiter before it gives the core away.
    """

    def __init__(self, rank: int, arena: Arena, names: Sequence[ArenaName]) -> None:
        self.rank, self.arena = rank, arena
        self.arenas = [
            arena if number == rank else Arena.open(name) for number, name in enumerate(names)
        ]
        self.spin_limit = spins(len(names))
        self._watched = {
            number: os.pidfd_open(name.pid) for number, name in enumerate(names) if number != rank
        }

    def wait_begins(self, description: str) -> None:
        """Publish that this rank waits, and for what."""
        self._publish(description, layout.WAITING_FOR, layout.WAITING_FOR_BYTES)
        self._set_state(layout.WAITING)

    def wait_ends(self) -> None:
        """Publish that this rank computes again."""
        self._set_state(layout.RUNNING)

    def end(self) -> None:
        """Publish that this rank will take part in nothing more, and stop watching others."""
        self._set_state(layout.ENDED)
        self.wake_all()
        for file in self._watched.values():
            os.close(file)
        self._watched.clear()
        os.close(self.arena.name.file)

    def wake_all(self) -> None:
        """Ring every rank's doorbell."""
        for arena in self.arenas:
            _ring(arena.address)

    def waiting_for(self, rank: int) -> str:
        """Say what a rank waits for, or that it does not."""
        state = self._word(rank, layout.STATE)
        if state != layout.WAITING:
            return "has ended" if state == layout.ENDED or rank in self.lost() else "computes"
        return "waits in " + self._text(rank, layout.WAITING_FOR, layout.WAITING_FOR_BYTES)

    def publish_finding(self, text: str) -> None:
        """Say what this rank found wrong, for those who stop because of it."""
        self._publish(text, layout.FINDING, layout.FINDING_BYTES)

    def finding(self, rank: int) -> str:
        """Read what a rank found wrong."""
        return self._text(rank, layout.FINDING, layout.FINDING_BYTES)

    def lost(self) -> list[int]:
        """Ranks that have ended, in either way."""
        poll = select.poll()
        for file in self._watched.values():
            poll.register(file, select.POLLIN)
        dead = {file for file, _ in poll.poll(0)}
        return [
            rank
            for rank, file in self._watched.items()
            if file in dead or self._word(rank, layout.STATE) == layout.ENDED
        ]

    def standstill(self) -> tuple[int, ...] | None:
        """Return every rank's count of ended waits, or None while one of them computes."""
        lost = self.lost()
        states = [self._word(rank, layout.STATE) for rank in range(len(self.arenas))]
        if any(state == layout.RUNNING and rank not in lost for rank, state in enumerate(states)):
            return None
        return tuple(self._word(rank, layout.TURNS) for rank in range(len(self.arenas)))

    def look(self) -> None:
        """Publish that this rank has looked again for what it waits for, and found nothing."""
        looks = self._word(self.rank, layout.LOOKS) + 1
        struct.pack_into("<q", self.arena.memory, layout.LOOKS, looks)

    def looks(self) -> list[int]:
        """Return how often each rank has looked in vain; for those that have ended, no bound."""
        lost = self.lost()
        ranks = range(len(self.arenas))
        return [sys.maxsize if r in lost else self._word(r, layout.LOOKS) for r in ranks]

    def claim_report(self) -> bool:
        """Tell whether this rank is the first of the job to report a failure."""
        return int(_take(self.arenas[0].address + layout.CLAIM)) == 0

    def _publish(self, text: str, start: int, room: int) -> None:
        data = text.encode()[: room - 1] + b"\0"
        self.arena.memory[start : start + len(data)] = data

    def _text(self, rank: int, start: int, room: int) -> str:
        data = self.arenas[rank].memory[start : start + room].split(b"\0", 1)[0]
        return data.decode(errors="replace")

    def _set_state(self, state: int) -> None:
        struct.pack_into("<q", self.arena.memory, layout.STATE, state)

    def _word(self, rank: int, offset: int) -> int:
        return int(struct.unpack_from("<q", self.arenas[rank].memory, offset)[0])


def open_host(rank: int, names: Sequence[bytes], arena: Arena) -> Host:
    """Map every rank's arena.

    Raises
    ------
    HcomError : a rank runs on another host, or this host hides its processes from each other.
    """
    try:
        return Host(rank, arena, [ArenaName.from_bytes(name) for name in names])
    except OSError as cause:
        raise HcomError(f"rank {rank} cannot reach the other ranks' processes: {cause}") from cause
