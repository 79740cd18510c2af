"""A session: a communicator's memory and counters in one process, and how it runs programs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from hcom.errors import HcomError, MismatchError, NotifyTimeoutError, PeerLostError
from hcom.executor import tables as t
from hcom.executor.agree import DIFFERS
from hcom.executor.declare import declare_fault
from hcom.executor.faults import Window, differing
from hcom.executor.program import Program
from hcom.executor.run import run
from hcom.executor.watch import Watch
from hcom.transport import layout
from hcom.transport.doorbell import AGAIN, CAME
from hcom.transport.host import Host


@dataclass(frozen=True)
class Sizes:
    """Bytes of a communicator's staging: a slot of a collective, a stream slot of a channel."""

    slot: int = 256 << 10
    stream: int = 256 << 10


class Session:
    """What the kernels need of a communicator.

    Parameters
    ----------
    host : the ranks on this host.
    ranks : the group's ranks of the world, in the group's order.
    offsets : where each member's window starts in its arena.
    sizes : of the staging slots.
    limit : HCCL_EXEC_TIMEOUT, s.

    Attributes
    ----------
    words : the session's words, `hcom.executor.tables`.
    clock : float64[1], the device clock of the communication stream, s.
    """

    def __init__(
        self, host: Host, ranks: Sequence[int], offsets: Sequence[int], sizes: Sizes, limit: float
    ) -> None:
        self.host, self.ranks, self.limit = host, tuple(ranks), limit
        self.rank = self.ranks.index(host.rank)
        self.sizes = sizes
        arenas = [host.arenas[rank] for rank in ranks]
        self.windows = [Window(a, offset) for a, offset in zip(arenas, offsets, strict=True)]
        self.clock = np.zeros(1)
        self._broken: str = ""
        size = len(ranks)
        self._headers = np.array([arena.address for arena in arenas], np.int64)
        self._windows = np.array([window.address for window in self.windows], np.int64)
        self._pids = np.array([arena.name.pid for arena in arenas], np.int64)
        self._readers = np.zeros((layout.SLOTS, size), np.int64)
        self._heads = np.zeros(size, np.int64)
        self._no_fault = np.zeros(layout.FAULT // 8 + 1, np.int64)
        self._streaming = np.zeros(size, np.int64)
        self.words = np.zeros(t.SESSION_WORDS, np.int64)
        self.address = int(self.words.ctypes.data)
        for word, value in {
            t.HEADER: self._headers[self.rank],
            t.WINDOW: self._windows[self.rank],
            t.RANK: self.rank,
            t.RANK_SIZE: size,
            t.SPIN_LIMIT: host.spin_limit,
            t.SLOT_BYTES: sizes.slot,
            t.STREAM_BYTES: sizes.stream,
            t.HEADERS: self._headers.ctypes.data,
            t.WINDOWS: self._windows.ctypes.data,
            t.PIDS: self._pids.ctypes.data,
            t.READERS: self._readers.ctypes.data,
            t.HEADS: self._heads.ctypes.data,
            t.STREAMING: self._streaming.ctypes.data,
            t.CLOCK: self.clock.ctypes.data,
            t.ARENA_BYTES: host.arena.name.nbytes,
            # Tried at the first long message; the kernel takes it back where it is refused.
            t.CROSS_MEMORY: 1,
        }.items():
            self.words[word] = value

    @property
    def broken(self) -> bool:
        """Whether an operation failed or was left."""
        return bool(self._broken)

    def _set_broken(self, why: str) -> None:
        self._broken = why
        self.words[t.BROKEN] = bool(why)

    @property
    def no_fault(self) -> int:
        """Address of a stand-in for a window without fault: for waits on this process's thread."""
        return int(self._no_fault.ctypes.data)

    @property
    def sequence(self) -> int:
        """Number of the last collective, from 1."""
        return int(self.words[t.SEQUENCE])

    def run(self, program: Program) -> None:
        """Run a bound operation to its end.

        Raises
        ------
        MismatchError : a rank runs another operation, or this one with other arguments.
        PeerLostError, NotifyTimeoutError : see `Watch`.
        """
        self.refuse_if_broken()
        self.words[t.SEQUENCE] += 1
        came = run(self.address, program.address)
        if came != CAME:
            self.go_on(came, program)

    def needs(self) -> list[int]:
        """Tell which ranks of the world the running collective waits for."""
        late = self._late()
        return [self.ranks[member] for member in (late or range(len(self.ranks)))]

    def go_on(self, came: int, program: Program) -> None:
        """Take a run that did not end at once to its end."""

        def resume() -> int:
            return run(self.address, program.address)

        title = f"{program.description}, operation {self.sequence}"
        if came == AGAIN:
            came = self.watched(title, resume, self.needs, lambda: int(self.words[t.CURSOR]))
        if came == DIFFERS:
            self.declare(layout.MISMATCH, int(self.words[t.ODD_RANK]))
        if came != CAME:
            self.raise_fault()

    def _late(self) -> list[int]:
        """Members that have not announced the running operation."""
        windows = enumerate(self.windows)
        return [member for member, window in windows if window.announced(self.sequence) is None]

    def watched(
        self,
        title: str,
        resume: Callable[[], int],
        needs: Callable[[], list[int]],
        progress: Callable[[], int],
    ) -> int:
        """Call `resume` until it is done; on a failure tell the members before raising it."""
        self._set_broken(f"{title} did not end")
        try:
            came = Watch(self.host, self.limit, title, needs).finish(resume, progress)
        except (PeerLostError, NotifyTimeoutError) as error:
            self.host.publish_finding(str(error))
            lost = isinstance(error, PeerLostError)
            self.declare(layout.LOST if lost else layout.TIMED_OUT, self.rank)
            raise
        self._set_broken("")
        return came

    def declare(self, kind: int, odd: int) -> None:
        """Set the fault word of every member that has none, and wake all."""
        declare_fault(self.address, kind, odd)

    def raise_fault(self) -> NoReturn:
        """Raise the error that the fault words of this rank's window tell."""
        kind, sequence, _, finder = self.windows[self.rank].fault()
        self._set_broken("an earlier operation failed")
        if kind == layout.MISMATCH:
            raise MismatchError(differing(self.windows, self.ranks, sequence))
        found = f"{self.host.finding(self.ranks[finder])}\n(found by rank {self.ranks[finder]})"
        raise (NotifyTimeoutError if kind == layout.TIMED_OUT else PeerLostError)(found)

    def refuse_if_broken(self) -> None:
        """Refuse use after a failure: members may be anywhere in the failed operation."""
        if self._broken:
            raise HcomError(f"this communicator is unusable: {self._broken}; make a new one")
