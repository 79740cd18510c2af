"""The processes below this one, found in /proc: so that none outlives a job."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(root: int) -> list[int]:
    """Give the processes below `root`, parents first; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for pid in found:  # grows while it is walked
        found += children.get(pid, [])
    return found[1:]


def end_descendants(patience: float) -> None:
    """Wait `patience` seconds for every process below this one to end, then kill those left."""
    until = time.monotonic() + patience
    while running := _reaped(descendants(os.getpid())):
        if time.monotonic() > until:
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _reaped(pids: list[int]) -> list[int]:
    """Take leave of children that have ended; give the processes that still run."""
    running = []
    for pid in pids:
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # a grandchild: its parent, or we later, will
            ended = 0
        if not ended:
            running.append(pid)
    return running
