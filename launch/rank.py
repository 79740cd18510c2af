"""The frame around one rank: a guard process that owns the rank's program and tells how it ended.

The MPI's own launcher starts `python rank.py RANK_VARIABLE RUN_DIR program.py args`, once a rank.
The process forks: the child becomes the program, the parent stays as its guard. Both talk to
`hcom-run` through files in the run folder, so that nothing depends on which MPI carries the job:

    rank-R.out, rank-R.err   where the program's standard output and error go
    events                   a named pipe: `started R PID`, `mapped R FILE`, `ended R STATUS`
    alive                    a named pipe that hcom-run holds open: once it is closed, by intent or
                             by the death of hcom-run, every guard ends its program
    failure-NANOSECONDS-R.txt   why rank R failed; the earliest one is the one to print

This file runs before anything else does, also where this project is not importable: it uses the
standard library alone.
"""

import contextlib
import ctypes
import faulthandler
import io
import os
import runpy
import select
import shutil
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h

SHARED_MEMORY = Path("/dev/shm")  # where Linux keeps it; MPI leaves files there
NOTE_EVERY = 0.05  # s between looks at what the rank maps, while it starts
NOTE_LATER = 1.0  # s between looks after the start
STARTING = 3.0  # s that a start may take
USAGE_ERROR = 2  # exit status of a program that has said what is wrong with its arguments
LINGER = 10.0  # s that a failed rank's guard waits to be told that the job ends


def write_failure(folder: Path, rank: int, text: str) -> None:
    """Say why this rank failed; the name orders failures in time and holds the rank."""
    draft = folder / f"draft-{rank}"
    draft.write_text(text.rstrip("\n") + "\n")
    draft.rename(folder / f"failure-{time.monotonic_ns()}-{rank}.txt")


def how_it_ended(status: int) -> str:
    """Describe an exit status; negative ones are signals, as in `os.waitstatus_to_exitcode`."""
    if status >= 0:
        return f"exited with status {status}"
    return f"was killed by signal {-status} ({signal.Signals(-status).name})"


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, however that comes about."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def mapped_shared_memory(pid: int | str) -> set[str]:
    """Files in shared memory that a process maps now (unlinked ones leave nothing behind)."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    names = {line.split(maxsplit=5)[-1] for line in lines if f"{SHARED_MEMORY}/" in line}
    return {name for name in names if not name.endswith(" (deleted)")}


class Channel:
    """The rank's end of the pipes and files that it shares with hcom-run."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder, self.rank = folder, rank
        self.alive = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
        self._events = os.open(folder / "events", os.O_WRONLY | os.O_NONBLOCK)
        self._before = {str(path) for path in SHARED_MEMORY.glob("*")}
        self.mapped: set[str] = set()

    def tell(self, event: str, value: object) -> bool:
        """Send one event (short enough to arrive in one piece); False if hcom-run is gone."""
        try:
            return os.write(self._events, f"{event} {self.rank} {value}\n".encode()) > 0
        except OSError:
            return False

    def note(self, pid: int | str) -> None:
        """Note the shared memory that the rank has made since it began."""
        for name in mapped_shared_memory(pid) - self._before - self.mapped:
            self.mapped.add(name)
            self.tell("mapped", name)

    def open_streams(self) -> None:
        """Make hcom-run's pipes this process's standard output and error."""
        for descriptor, suffix in ((1, "out"), (2, "err")):
            path = self.folder / f"rank-{self.rank}.{suffix}"
            stream = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            os.set_blocking(stream, True)
            os.dup2(stream, descriptor)
            os.close(stream)

    def failed(self) -> bool:
        """Whether this rank has said already why it failed."""
        return any(self.folder.glob(f"failure-*-{self.rank}.txt"))


class Guard:
    """The parent of one rank's program: ends it when the job ends, and tells how it ended."""

    def __init__(self, channel: Channel, child: int) -> None:
        self._channel, self._child = channel, child
        self._wake, self._signal = os.pipe()
        for descriptor in (self._wake, self._signal):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._signal, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._passed_on = 0  # the signal that the MPI's own launcher has ended this rank with
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._pass_on)
        self._poll = select.poll()
        self._poll.register(channel.alive, 0)  # reports only that its last writer has gone
        self._poll.register(self._wake, select.POLLIN)

    def watch(self) -> int:
        """Wait for the end of the program or of the job; return this process's exit status."""
        self._channel.tell("started", self._child)
        began = time.monotonic()
        while not self._job_ended():
            starting = time.monotonic() - began < STARTING
            self._poll.poll(1000 * (NOTE_EVERY if starting else NOTE_LATER))
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
            ended, status = os.waitpid(self._child, os.WNOHANG)
            if ended:
                return self._report(os.waitstatus_to_exitcode(status))
            self._channel.note(self._child)
        self._end_program()
        return 1

    def _pass_on(self, number: int, _: object) -> None:
        self._passed_on = number
        self._kill(os.kill, number)

    def _kill(self, how: Callable[[int, int], None], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            how(self._child, number)

    def _job_ended(self) -> bool:
        try:
            return os.read(self._channel.alive, 1) == b""
        except BlockingIOError:
            return False

    def _report(self, status: int) -> int:
        """Tell how the program ended; after a failure stay until hcom-run has seen to the others.

        The MPI's own launcher would otherwise kill them at once, before their last words.
        """
        rank = self._channel.rank
        if status:
            self._kill(os.killpg, signal.SIGKILL)
        explained = status in (0, USAGE_ERROR, -self._passed_on) or self._channel.failed()
        if not explained:
            write_failure(self._channel.folder, rank, f"rank {rank} {how_it_ended(status)}")
        self._channel.tell("ended", status)
        until = time.monotonic() + LINGER
        while status and not self._job_ended() and time.monotonic() < until:
            self._poll.poll(100)
        return status if status >= 0 else 128 - status

    def _end_program(self) -> None:
        """Kill the program with all it has started; remove what would outlive them all."""
        self._channel.note(self._child)
        for how in (os.killpg, os.kill):  # it leads its process group, once it has got so far
            self._kill(how, signal.SIGKILL)
        os.waitpid(self._child, 0)
        for name in self._channel.mapped:
            Path(name).unlink(missing_ok=True)
        if not self._channel.tell("ended", -signal.SIGKILL):
            shutil.rmtree(self._channel.folder, ignore_errors=True)


class Program:
    """The child: becomes the program, and says why it failed if Python can tell."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def run(self, command: list[str]) -> None:
        """Run a Python file, `-m module`, or any other program, as the interpreter would."""
        sys.excepthook = self._report
        try:
            self._run(command)
        except SystemExit as stop:
            self._exit(stop)
        except BaseException as error:  # noqa: BLE001 - every failure ends here, once
            sys.excepthook(type(error), error, _own_frames_removed(error.__traceback__))
            self._leave(1)

    def _run(self, command: list[str]) -> None:
        if command[0] == "-m":
            sys.argv, sys.path[0] = command[1:], str(Path.cwd())
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        elif command[0].endswith(".py"):
            sys.argv = command
            _run_file(Path(command[0]).resolve())
        else:
            os.execvp(command[0], command)

    def _report(
        self, kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
    ) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        rank = self._channel.rank
        write_failure(self._channel.folder, rank, f"rank {rank} failed:\n{text}")

    def _exit(self, stop: SystemExit) -> None:
        """End at once where the status is not 0: MPI's own farewell would wait for the others."""
        if isinstance(stop.code, int) or stop.code is None:
            status = int(stop.code or 0)
        else:
            write_failure(self._channel.folder, self._channel.rank, str(stop.code))
            status = 1
        if status:
            self._leave(status)

    def _leave(self, status: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        self._channel.note("self")
        os._exit(status)


def _run_file(program: Path) -> None:
    """Do what `python program.py` does: runpy would lose the file's name as the user gave it."""
    main = types.ModuleType("__main__")
    main.__file__ = str(program)
    sys.modules["__main__"] = main
    sys.path[0] = str(program.parent)
    exec(compile(program.read_bytes(), main.__file__, "exec"), main.__dict__)


def _own_frames_removed(trace: types.TracebackType | None) -> types.TracebackType | None:
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace


def become_program(channel: Channel, guard: int, command: list[str]) -> None:
    """Turn the forked child into the rank's program."""
    os.setsid()  # its own process group: the guard ends whatever the program has started
    die_with_parent()
    if os.getppid() != guard:
        os._exit(1)
    channel.open_streams()
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    Program(channel).run(command)


def main() -> None:
    """Run one rank: `python rank.py RANK_VARIABLE RUN_DIR program.py args`."""
    variable, folder, *command = sys.argv[1:]
    if variable not in os.environ:
        sys.exit(f"{variable} is not set: the MPI that started this rank is not the one found")
    if not Path(folder).is_dir():  # another host: its own MPI launcher has to do
        del os.environ["HCOM_RUN_DIR"]
        if command[0] == "-m" or command[0].endswith(".py"):
            command.insert(0, sys.executable)
        os.execvp(command[0], command)
    channel = Channel(Path(folder), int(os.environ[variable]))
    die_with_parent()
    guard = os.getpid()
    child = os.fork()
    if child:
        os._exit(Guard(channel, child).watch())
    become_program(channel, guard, command)


if __name__ == "__main__":
    main()
