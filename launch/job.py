"""One running job: its ranks' output passes through, and all of it ends together.

    hcom-run                     this module
      mpiexec                    the MPI's own launcher, and what it needs below itself
        guard of rank R          launch/rank.py
          program of rank R      what the user asked for

When a rank fails, its peers have a moment for last words of their own; then they are asked to end
(SIGTERM); then their guards kill them; then whatever is left below this process is killed.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from launch import rank as rank_frame
from launch.channel import Channel, Event
from launch.failure import describe, read_failures
from launch.mpi import Mpi
from launch.processes import adopt_orphans, end_descendants
from launch.shared_memory import abandoned, mpi_files
from launch.streams import Stream

LAST_WORDS = 1.0  # s from a failure until the other ranks are asked to end
ASKED = 1.0  # s until guards kill those that have not
HUNG_UP = 1.0  # s until everything left is killed
INTERRUPTED = 2.0  # s from a signal to us, passed on at once, until guards kill

Action = Callable[[], None]


class Job:
    """A program on several ranks, from its start to its end."""

    def __init__(self, mpi: Mpi, ranks: int, program: list[str]) -> None:
        self._mpi, self._ranks, self._program = mpi, ranks, program
        self._running: dict[int, int] = {}  # rank -> process
        self._statuses: dict[int, int] = {}  # rank -> how it ended, in order of time
        self._shared_memory: set[Path] = set()
        self._launcher_text = b""
        self._signals: list[int] = []
        self._passing_on_text = self._stuck = False
        self._asked_at: int | None = None  # ns; what ranks say of their end later is our doing
        self._steps: list[tuple[float, Action]] = []  # on the way to the end, by time
        self._selector = selectors.DefaultSelector()

    def run(self, environment: dict[str, str]) -> int:
        """Run the job to its end.

        Parameters
        ----------
        environment : the variables of every rank.

        Returns
        -------
        0 if every rank ended with 0; else the first failing rank's status, 128 + n for signal n.
        """
        adopt_orphans()
        self._memory_before = mpi_files()
        self._hear_signals()
        with tempfile.TemporaryDirectory(prefix="hcom-run-") as folder:
            self._channel = Channel(Path(folder), self._ranks)
            self._start(environment)
            try:
                self._watch()
            finally:
                self._clean_up()
            with contextlib.suppress(BrokenPipeError):
                self._channel.pass_on_rest(1)
                self._report()
                self._channel.pass_on_rest(2)
            return self._exit_status()

    def _hear_signals(self) -> None:
        woken, wake = os.pipe()
        for descriptor in (woken, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ, lambda: os.read(woken, 4096))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        self._signals.append(number)
        if self._passing_on_text:  # perhaps to a reader that does not read: leave off
            raise InterruptedError

    def _start(self, environment: dict[str, str]) -> None:
        folder = str(self._channel.folder)
        frame = [sys.executable, rank_frame.__file__, self._mpi.rank_variable, folder]
        self._launcher_output, output = os.pipe()
        self._launcher = subprocess.Popen(
            [*self._mpi.command(self._ranks), *frame, *self._program],
            env={**environment, "HCOM_RUN_DIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a terminal's Ctrl-C comes to us alone
        )
        os.close(output)
        self._listen(self._channel.events, self._read_events)
        self._listen(self._launcher_output, self._read_launcher)
        for stream in self._channel.streams:
            self._listen(stream.source, partial(self._pump, stream))

    # -- while it runs ----------------------------------------------------------------------

    def _watch(self) -> None:
        handled = 0
        while self._launcher.poll() is None:
            wait = self._steps[0][0] - time.monotonic() if self._steps else None
            try:
                for key, _ in self._selector.select(wait):
                    key.data()
            except BrokenPipeError:  # whoever reads our output has gone
                self._signals.append(signal.SIGPIPE)
            while handled < len(self._signals):
                self._pass_on(self._signals[handled], again=handled > 0)
                handled += 1
            while self._steps and self._steps[0][0] <= time.monotonic():
                self._steps.pop(0)[1]()

    def _listen(self, descriptor: int, action: Callable[[], object]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, action)

    def _pump(self, stream: Stream) -> None:
        """Pass text on; once a rank has failed, what ranks say of errors waits for the report."""
        if self._stuck or (stream.sink == 2 and self._failing()):
            self._selector.unregister(stream.source)
            return
        self._passing_on_text = True
        try:
            stream.pump()
        except InterruptedError:
            self._stuck = True
        finally:
            self._passing_on_text = False

    def _read_events(self) -> None:
        for event in self._channel.read_events():
            self._take(event)

    def _take(self, event: Event) -> None:
        if event.kind == "started":
            self._running[event.rank] = int(event.value)
        elif event.kind == "mapped":
            self._shared_memory.add(Path(event.value))
        else:
            self._running.pop(event.rank, None)
            self._statuses[event.rank] = int(event.value)
            self._end_together()

    def _end_together(self) -> None:
        """Set the way to the end out once a rank has failed; at once where all ranks have ended."""
        failed = any(self._statuses.values())
        if failed and len(self._statuses) == self._ranks:
            self._plan((0, self._channel.hang_up), (HUNG_UP, self._kill))
        elif failed and not self._steps:
            self._plan(
                (LAST_WORDS, self._ask), (ASKED, self._channel.hang_up), (HUNG_UP, self._kill)
            )

    def _plan(self, *steps: tuple[float, Action]) -> None:
        """Take these steps, each so many seconds after the one before, instead of any planned."""
        at = time.monotonic()
        self._steps = [(at := at + delay, action) for delay, action in steps]

    def _ask(self) -> None:
        self._asked_at = time.monotonic_ns()
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        for pid in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill(self) -> None:
        end_descendants(patience=0)

    def _pass_on(self, number: int, *, again: bool) -> None:
        """Pass a signal to us on to every rank; at the second one, do not wait any longer."""
        self._send(signal.SIGTERM if number == signal.SIGPIPE else number)
        self._plan((0 if again else INTERRUPTED, self._channel.hang_up), (HUNG_UP, self._kill))

    def _read_launcher(self) -> None:
        """Pass on what the MPI's launcher says itself; once a rank has failed, hold it back."""
        text = os.read(self._launcher_output, 1 << 16)
        if not text:
            self._selector.unregister(self._launcher_output)
        if self._failing():
            self._launcher_text += text
        else:
            os.write(2, text)

    def _failing(self) -> bool:
        failed = any(self._statuses.values()) or bool(self._signals)
        return failed or bool(read_failures(self._channel.folder))

    # -- at the end -------------------------------------------------------------------------

    def _clean_up(self) -> None:
        """Leave no process, and no shared memory after an unclean end."""
        self._channel.hang_up()
        end_descendants(patience=HUNG_UP)
        self._read_events()
        if self._exit_status():
            for path in self._shared_memory | abandoned(self._memory_before):
                path.unlink(missing_ok=True)

    def _exit_status(self) -> int:
        if self._signals:
            return 128 + self._signals[0]
        failed = [status for status in self._statuses.values() if status]
        status = (failed or [self._launcher.returncode])[0]
        return status if status >= 0 else 128 - status

    def _report(self) -> None:
        """Say why the job failed, unless a rank ended with status 2: it has said so itself."""
        status = self._exit_status()
        failures = [
            failure
            for failure in read_failures(self._channel.folder)
            if self._asked_at is None or failure.time < self._asked_at
        ]
        if self._signals:
            text = f"hcom-run: {signal.Signals(self._signals[0]).name} ended the job"
        elif failures:
            text = describe(failures)
        elif any(self._statuses.values()) or not status:
            return
        else:
            text = self._launcher_text.decode(errors="replace").strip()
            text = text or f"hcom-run: the job ended with status {status}"
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the command's own words
