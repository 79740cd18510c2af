"""Joining and leaving a job: again and again, alone, and with operations that are not over."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from launch import mpi

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60  # s

try:
    MPI = mpi.find()
except mpi.MpiNotFoundError:
    pytest.skip("no MPI here", allow_module_level=True)


def run(folder, body, ranks=None, **variables):
    """Run a program, alone or on ranks; what it left."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(body))
    launcher = MPI.command(ranks) if ranks else []
    return subprocess.run(
        [*launcher, sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


AGAIN = """
    import gc, os, threading, time
    import numpy as np
    import hcom

    def left():
        gc.collect()
        maps = open("/proc/self/maps").read()
        return len(os.listdir("/proc/self/fd")), maps.count("memfd:hcom"), threading.active_count()

    after = []
    for number in range(20):
        hcom.init()
        x = np.full(1000, number + hcom.rank())
        total = hcom.all_reduce(x, async_op=True).wait() if number % 2 else hcom.all_reduce(x)
        assert (total == 2 * number + 1).all()
        if hcom.rank() == 1:
            time.sleep(0.02)
        hcom.finalize()
        after.append(left())
    assert after[2:] == after[1:2] * 18, after  # what the first ones load stays
    print("the same after each")
"""


def test_a_job_may_be_joined_and_left_many_times_and_nothing_is_left(tmp_path):
    shared = set(Path("/dev/shm").iterdir())
    done = run(tmp_path, AGAIN, ranks=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the same after each"] * 2
    assert {path for path in Path("/dev/shm").iterdir() if "hcom" in path.name} <= shared


ALONE = """
    import numpy as np
    import hcom

    try:
        hcom.rank()
    except hcom.HcomError as error:
        print(error)
    hcom.init()
    assert (hcom.rank(), hcom.rank_size(), hcom.local_rank()) == (0, 1, 0)
    x = np.arange(4.0)
    for name in ("all_reduce", "reduce", "broadcast", "scatter", "gather", "all_gather",
                 "reduce_scatter", "all_to_all"):
        assert getattr(hcom, name)(x).tolist() == x.tolist(), name
    assert hcom.all_gather_v(x, [4]).tolist() == x.tolist()
    assert hcom.reduce_scatter_v(x, [4]).tolist() == x.tolist()
    assert hcom.all_to_all_v(x, [4], [4]).tolist() == x.tolist()
    assert hcom.all_to_all_vc(x, [[4]]).tolist() == x.tolist()
    assert hcom.all_reduce(x, async_op=True).wait().tolist() == x.tolist()
    hcom.barrier()
    assert hcom.new_group([0]).split(5).all_reduce(x).tolist() == x.tolist()
    hcom.finalize()
    hcom.finalize()
"""


def test_without_a_launcher_there_is_one_rank_and_every_call_works(tmp_path):
    done = run(tmp_path, ALONE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "hcom is not initialised: call hcom.init() first\n"


UNDER_WAY = """
    import time
    import numpy as np
    import hcom

    hcom.init()
    group = hcom.new_group([0, 1])
    if hcom.rank() == 0:
        group.recv(np.zeros(COUNT), 1, tag=7, async_op=True)
        {end}
    else:
        time.sleep(0.2)
        {peer}
"""


def test_operations_that_are_not_over_at_exit_are_told(tmp_path):
    body = UNDER_WAY.format(end="pass", peer="pass").replace("COUNT", "5")
    done = run(tmp_path, body, ranks=2)
    told = "hcom: 1 asynchronous operations not over, first"
    assert done.stderr.count(told) == 1
    assert "recv from rank 1 (tag 7, 5 x float64), under way" in done.stderr


def test_finalize_waits_for_what_is_under_way(tmp_path):
    peer = "group.send(np.ones(COUNT), 0, tag=7, async_op=True); hcom.finalize()"
    body = UNDER_WAY.format(end="hcom.finalize()", peer=peer).replace("COUNT", "10_000_000")
    done = run(tmp_path, body, ranks=2)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_setting_is_told_in_one_line_before_anything_is_shared(tmp_path):
    done = run(tmp_path, "import hcom\nhcom.init()", HCCL_EXEC_TIMEOUT="soon")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("hcom.errors.ConfigError: EI0001: HCCL_EXEC_TIMEOUT='soon' must be")


FAILED = """
    import numpy as np
    import hcom

    hcom.init()
    try:
        hcom.all_reduce(np.ones(3 + hcom.rank()))
    except hcom.MismatchError:
        hcom.finalize()
    hcom.init()
    assert hcom.all_reduce(np.ones(1)).item() == 2
    hcom.finalize()
"""


def test_a_world_that_has_failed_can_be_left_and_joined_anew(tmp_path):
    done = run(tmp_path, FAILED, ranks=2)
    assert (done.returncode, done.stderr) == (0, "")
