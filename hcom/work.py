"""Work: the handle of an asynchronous operation, and the thread that carries them all out."""

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from hcom.errors import HcomError
from hcom.executor import engine as e
from hcom.executor import tables as t
from hcom.executor.session import Session
from hcom.jit import jit
from hcom.transport.doorbell import wait_for

# Seconds that the thread gets to end with the process.
END_SECONDS = 2.0


@jit()
def _wait(word: int, target: int, header: int, no_fault: int) -> int:
    return int(wait_for(word, target, header, no_fault, 0))


class Work:
    """An operation under way.

    Parameters
    ----------
    session : of the group.
    title : the operation in words.
    kind, address, count : the command, see `hcom.executor.engine`.
    issue : device clock at issue, s.
    needs : ranks of the world that the operation needs.
    finish : called once with the handle when the data is there; returns the caller's result.
    """

    def __init__(
        self,
        session: Session,
        title: str,
        command: tuple[int, int, int],
        issue: float,
        needs: Callable[[], list[int]],
        finish: Callable[["Work"], Any],
    ) -> None:
        self._session, self._title, self._needs, self._finish = session, title, needs, finish
        self._words = np.zeros(e.COMMAND_WORDS, np.int64)
        self._words[e.C_KIND], self._words[e.C_AT], self._words[e.C_COUNT] = command
        self._words.view(np.float64)[e.C_ISSUE] = issue
        self.address = int(self._words.ctypes.data)
        self._over = False
        self._result: Any = None
        self._error: BaseException | None = None

    @property
    def issue(self) -> float:
        """Device clock at issue, s."""
        return float(self._words.view(np.float64)[e.C_ISSUE])

    @property
    def end(self) -> float:
        """Device clock at the end, s."""
        return float(self._words.view(np.float64)[e.C_END])

    @property
    def wall_end(self) -> float:
        """When it was over, s of time.perf_counter()."""
        return int(self._words[e.C_WALL]) * 1e-9

    @property
    def sequence(self) -> int:
        """Number of the operation in its group."""
        return int(self._words[e.C_SEQUENCE])

    def is_completed(self) -> bool:
        """Tell whether the operation is over, successfully or not, without waiting."""
        if not self._over and self._words[e.C_STATUS] >= e.DONE:
            self._conclude()
        return self._over

    def wait(self) -> Any:
        """Wait until the operation is over; waiting again is harmless.

        Returns
        -------
        numpy array or None
            What the blocking call would return.

        Raises
        ------
        MismatchError, NotifyTimeoutError, PeerLostError : as the blocking call.
        """
        if not self.is_completed():
            self._session.watched(self._title, self._look, self._needs, lambda: 0)
            self._conclude()
        if self._error is not None:
            raise self._error
        return self._result

    def exception(self) -> BaseException | None:
        """Return the error with which the operation ended; None if it has none, or none yet."""
        return self._error if self.is_completed() else None

    def _look(self) -> int:
        status = self.address + 8 * e.C_STATUS
        header, nothing = self._session.host.arena.address, self._session.no_fault
        return _wait(status, e.DONE, header, nothing)

    def _conclude(self) -> None:
        self._over = True
        try:
            if self._words[e.C_STATUS] == e.FAILED:
                self._session.raise_fault()
            self._result = self._finish(self)
        except HcomError as error:
            self._error = error

    def __repr__(self) -> str:
        return f"<Work {self._title}, {'over' if self.is_completed() else 'under way'}>"


class Engine:
    """The communication thread of a process: started with the first asynchronous operation.

    Parameters
    ----------
    header : address of this process's header.
    """

    def __init__(self, header: int) -> None:
        self._groups = np.zeros((e.MOST_GROUPS, e.GROUP_COLUMNS), np.int64)
        self._words = np.zeros(e.ENGINE_WORDS, np.int64)
        self._words[e.HEADER] = header
        self._words[e.GROUP_TABLE] = self._groups.ctypes.data
        self._rings: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}
        # Submitted works, with group and place in its ring. The thread reads a command's words even
        # after it has told that it is over, until it has moved on: until then they are kept here.
        self._under_way: deque[tuple[Work, int, int]] = deque()
        self._thread: threading.Thread | None = None

    def busy(self, session: Session) -> bool:
        """Tell whether a group has commands that are not over."""
        number = self._numbers.get(session.address)
        if number is None:
            return False
        row = self._groups[number]
        return bool(row[e.G_HEAD] != row[e.G_TAIL])

    def submit(self, work: Work, session: Session) -> Work:
        """Put an operation behind the others of its group."""
        number = self._number(session)
        self._let_go()
        self._under_way.append((work, number, int(self._groups[number, e.G_TAIL])))
        while not e.submit(self._words.ctypes.data, number, work.address):
            self._under_way[0][0].wait()
            self._let_go()
        return work

    def _let_go(self) -> None:
        """Forget works that are over, and that the thread is past."""
        while self._under_way:
            work, number, place = self._under_way[0]
            if not work.is_completed() or self._groups[number, e.G_HEAD] <= place:
                return
            self._under_way.popleft()

    def _number(self, session: Session) -> int:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="hcom", daemon=True)
            self._thread.start()
        number = self._numbers.get(session.address)
        if number is None:
            number = self._numbers[session.address] = len(self._rings)
            if number == e.MOST_GROUPS:
                raise HcomError(f"more than {e.MOST_GROUPS} groups with asynchronous operations")
            self._rings.append(np.zeros(e.RING, np.int64))
            row = self._groups[number]
            row[e.G_SESSION], row[e.G_RING] = session.address, self._rings[-1].ctypes.data
            self._words[e.GROUPS] = number + 1
        # Each time: a new session may stand where one that is gone had its words.
        session.words[t.QUEUE] = self._groups[number][e.G_HEAD :].ctypes.data
        return number

    def _serve(self) -> None:
        e.serve(self._words.ctypes.data)

    def wait_all(self) -> None:
        """Wait for all operations; the first error is raised."""
        for work, _, _ in self._under_way:
            work.wait()

    def end(self) -> None:
        """Stop the thread; operations that are not over are reported and given up."""
        left = [work for work, _, _ in self._under_way if not work.is_completed()]
        if left:
            sys.stderr.write(
                f"hcom: {len(left)} asynchronous operations not over, first {left[0]}\n"
            )
        if self._thread is not None:
            e.stop(self._words.ctypes.data)
            self._thread.join(END_SECONDS)
