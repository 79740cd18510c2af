"""A rank of an hcom program fails while the others are in a collective: under both launchers.

What plain MPI launchers leave in shared memory is theirs; hcom's own memory has no name.
"""

import time

import pytest
from launched import MEET, Launched, hcom_run, mpirun

PROGRAM = f"""
import os, signal, sys, time
import numpy as np
import hcom
hcom.init()
rank, size = hcom.rank(), hcom.rank_size()
hcom.all_reduce(np.ones(4))
{MEET}
if rank == 2:
    FAULT
while True:
    hcom.all_reduce(np.ones(4))
"""


@pytest.fixture(params=[hcom_run, mpirun], ids=["hcom-run", "mpirun"])
def end_of(request, tmp_path):
    """Run three ranks, of which rank 2 fails; give what was said of it and the exit status."""

    jobs = []

    def run(fault):
        (tmp_path / "program.py").write_text(PROGRAM.replace("FAULT", fault))
        job = Launched(tmp_path, 3, request.param(3, "program.py"))
        jobs.append(job)
        job.until_ready()
        since = time.monotonic()
        _, err, status = job.wait()
        job.assert_nothing_runs(since)
        assert status != 0
        return err, request.param is hcom_run

    yield run
    for job in jobs:
        job.end()


def test_an_exception_is_told_first_and_once(end_of):
    err, _ = end_of("raise RuntimeError('broken')")
    assert err.startswith("rank 2 failed:\nTraceback (most recent call last):\n")
    assert err.count("Traceback") == 1
    assert err.count("RuntimeError: broken") == 1


def test_a_killed_rank_ends_all(end_of):
    err, ours = end_of("os.kill(os.getpid(), signal.SIGKILL)")
    if ours:
        assert err.startswith("rank 2 was killed by signal 9 (SIGKILL)\n")
        assert "Traceback" not in err


def test_a_rank_that_exits_ends_all(end_of):
    err, ours = end_of("sys.exit(1)")
    if ours:
        assert err.startswith("rank 2 exited with status 1\n")
