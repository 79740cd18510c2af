"""A job started for a test, and how to find whatever is left of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from launch import mpi

ROOT = Path(__file__).resolve().parents[2]
GONE_WITHIN = 5.0  # s

try:
    MPI = mpi.find()
except mpi.MpiNotFoundError:
    pytest.skip("no MPI here", allow_module_level=True)


def hcom_run(ranks, *arguments):
    return [sys.executable, "-m", "launch.run", "-n", str(ranks), *arguments]


def mpirun(ranks, *arguments):
    return [*MPI.command(ranks), sys.executable, *arguments]


# Text of a program: each rank says that it is there, with its process, and waits for the others.
MEET = """
with open(f"draft-{rank}", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"draft-{rank}", f"ready-{rank}")
while not all(os.path.exists(f"ready-{number}") for number in range(size)):
    time.sleep(0.01)
"""


class Launched:
    """A started job, with a mark in its environment by which its processes are found.

    Its ranks write `mapped-RANK`, the shared memory that they map, and then MEET.
    """

    def __init__(self, folder, ranks, command, **variables):
        self.folder, self.ranks = folder, ranks
        self.mark = f"HCOM_TEST_MARK={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        own = {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), name: value}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | own | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self):
        """Wait for the end; give output, errors and status."""
        out, err = self.process.communicate(timeout=60)
        return out, err, self.process.returncode

    def end(self):
        """Leave nothing behind, however the test went."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()

    def until_ready(self):
        until = time.monotonic() + 60
        while len(list(self.folder.glob("ready-*"))) < self.ranks:
            assert time.monotonic() < until, "the ranks did not start"
            time.sleep(0.02)

    def pids(self):
        """Processes of this job that still run."""
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in environment.read_bytes():
                    found.append(int(environment.parent.name))
        return found

    def assert_nothing_runs(self, since):
        while self.pids():
            assert time.monotonic() - since < GONE_WITHIN, "processes are left"
            time.sleep(0.02)

    def assert_nothing_left(self, since):
        self.assert_nothing_runs(since)
        for file in self.folder.glob("mapped-*"):
            for name in file.read_text().split():
                assert not Path(name).exists(), f"{name} is left"
        assert not list(self.folder.glob("hcom-run-*")), "the run folder is left"
