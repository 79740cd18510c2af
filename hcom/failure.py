"""What a failing rank does: report once, first and whole, and end the job.

Under `hcom-run` a rank leaves its report in the folder HCOM_RUN_DIR, and the launcher prints the
earliest; under plain `mpirun` the first rank that fails prints its own. Either way it aborts the
MPI job, since the other ranks would wait for it.
"""

import atexit
import contextlib
import dis
import os
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from hcom.transport.host import Host

RUN_DIR = "HCOM_RUN_DIR"
BEHIND_THE_FIRST = 1.0  # s
PASSED_ON = 0.25  # s
MPI_MEMORY = ("/dev/shm/mpich_shm_", "/dev/shm/vader_segment.", "/dev/shm/sm_segment.")

_last_exit: SystemExit | None = None


def report_failures(host: Host) -> None:
    """Install the hooks of this process: for uncaught exceptions, and for `sys.exit(not 0)`."""
    sys.excepthook = _hook(host)
    _note_exit_status()
    atexit.register(_end_job_on_bad_exit)


def _hook(host: Host) -> Any:
    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        _report(host, f"rank {host.rank} failed:\n{text}")
        _abort(1)

    return excepthook


def _report(host: Host, text: str) -> None:
    folder = os.environ.get(RUN_DIR)
    if folder:
        name = f"failure-{time.monotonic_ns()}-{host.rank}.txt"
        part = Path(folder) / f".{name}"
        part.write_text(text)
        part.rename(Path(folder) / name)
    elif host.claim_report():
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
        # MPI's launcher drops what it has not passed on when the job is aborted.
        time.sleep(PASSED_ON)
    else:
        # The first to report ends the job; its text is to stand before the launcher's own.
        time.sleep(BEHIND_THE_FIRST)


def _note_exit_status() -> None:
    """Keep what `sys.exit` raises: at exit the interpreter no longer tells the status."""
    exit_before = sys.exit

    def noting_exit(status: Any = None, /) -> NoReturn:
        global _last_exit
        try:
            exit_before(status)
        except SystemExit as error:
            _last_exit = error
            raise

    sys.exit = noting_exit


def _end_job_on_bad_exit() -> None:
    status = None if _last_exit is None else _last_exit.code
    if status and _last_exit is not None and not _caught(_last_exit):
        _abort(status if isinstance(status, int) else 1)


def _caught(error: SystemExit) -> bool:
    """Tell whether the program went on after an exit that it caught.

    Then the outermost frame that the error has reached ended by returning; else it ended by
    raising, whatever `finally` and `with` blocks were on the way.
    """
    trace = error.__traceback__
    if trace is None:
        return False
    frame = trace.tb_frame
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _unlink_mpi_memory() -> None:
    """Take the names of MPI's shared memory away: an aborted job would leave them behind.

    Who maps them keeps the memory until it ends.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            name = line.split(maxsplit=5)[-1]
            if name.startswith(MPI_MEMORY):
                Path(name).unlink(missing_ok=True)


def _abort(status: int) -> None:
    """End every rank: MPI's own exit would wait for them."""
    from mpi4py import MPI

    sys.stdout.flush()
    sys.stderr.flush()
    _unlink_mpi_memory()
    MPI.COMM_WORLD.Abort(status)
    os._exit(status)
