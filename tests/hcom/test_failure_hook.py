"""What a failing rank does: it reports once, first and whole, and ends the job."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch import mpi

ROOT = Path(__file__).resolve().parents[2]
SLEEP = 90  # s: longer than any test may take
SOON = 45  # s, mostly for the start on a busy machine, and kernels on their first use

try:
    MPI = mpi.find()
except mpi.MpiNotFoundError:
    pytest.skip("no MPI here", allow_module_level=True)


def run(folder, body, ranks=None, run_dir=None):
    """Run a program after `hcom.init()`, alone or on ranks; what it printed, and its status."""
    program = folder / "program.py"
    program.write_text(f"import sys, time\nimport hcom\nhcom.init()\nrank = hcom.rank()\n{body}\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("HCOM_RUN_DIR", None)
    if run_dir:
        environment["HCOM_RUN_DIR"] = str(run_dir)
    launcher = MPI.command(ranks) if ranks else []
    began = time.monotonic()
    done = subprocess.run(
        [*launcher, sys.executable, str(program)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SLEEP,
    )
    assert time.monotonic() - began < SOON
    return done


def test_an_uncaught_exception_is_printed_once_with_its_cause_and_ends_with_status_1(tmp_path):
    body = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('boom') from e"
    done = run(tmp_path, body)
    told = done.stderr
    assert done.returncode == 1
    assert told.startswith("rank 0 failed:\nTraceback (most recent call last):\n")
    assert told.count("KeyError: 'boom'") == 1
    assert told.index("ZeroDivisionError") < told.index("direct cause") < told.index("KeyError")


def test_under_a_launcher_the_report_goes_to_its_folder_whole_and_to_nowhere_else(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    before = time.monotonic_ns()
    done = run(tmp_path, "raise ValueError('boom')", run_dir=folder)
    assert done.returncode == 1
    assert "ValueError" not in done.stderr
    (report,) = folder.iterdir()  # nothing half written beside it
    word, at, rank = report.stem.split("-")
    assert (word, rank, report.suffix) == ("failure", "0", ".txt")
    assert before < int(at) < time.monotonic_ns()
    text = report.read_text()
    assert text.startswith("rank 0 failed:\nTraceback")
    assert text.endswith("ValueError: boom\n")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('in words')", 1),
        ("hcom.finalize(); raise SystemExit(5)", 5),
        ("try:\n    sys.exit(6)\nexcept SystemExit:\n    pass", 0),
        ("def f():\n    sys.exit(6)\ntry:\n    f()\nexcept SystemExit:\n    rank = 7", 0),
        ("def f():\n    sys.exit(6)\nf()", 6),
        ("def f():\n    try: sys.exit(6)\n    finally: print()\nf()", 6),
    ],
)
def test_the_exit_status_is_the_programs(tmp_path, body, status):
    done = run(tmp_path, body)
    assert done.returncode == status
    assert "failed" not in done.stderr
    assert ("in words" in done.stderr) == ("in words" in body)


def test_after_finalize_a_failure_is_still_reported(tmp_path):
    done = run(tmp_path, "hcom.finalize()\nraise ValueError('late')")
    assert done.returncode == 1
    assert done.stderr.count("ValueError: late") == 1


def test_a_rank_that_raises_ends_those_that_wait_for_it(tmp_path):
    done = run(tmp_path, "if rank == 1: raise ValueError('boom')\nhcom.barrier()", ranks=2)
    assert done.returncode != 0
    assert done.stderr.count("rank 1 failed:") == 1
    assert "rank 0 failed" not in done.stderr
    assert done.stderr.index("ValueError: boom") < done.stderr.lower().index("abort")


def test_of_several_ranks_that_raise_one_is_printed(tmp_path):
    done = run(tmp_path, "hcom.barrier()\nraise ValueError(f'boom {rank}')", ranks=3)
    assert done.returncode != 0
    assert done.stderr.count(" failed:\n") == 1
    assert done.stderr.count("ValueError: boom") == 1


def test_a_rank_that_exits_with_a_status_ends_the_job_while_others_sleep(tmp_path):
    done = run(tmp_path, f"if rank == 1: sys.exit(3)\ntime.sleep({SLEEP})", ranks=2)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_the_mpis_shared_memory_is_gone_after_a_failure(tmp_path):
    body = f"""
from launch.rank import mapped_shared_memory
open({str(tmp_path)!r} + f'/mapped-{{rank}}', 'w').write('\\n'.join(mapped_shared_memory('self')))
hcom.barrier()
if rank == 1: raise ValueError('boom')
hcom.barrier()
"""
    run(tmp_path, body, ranks=2)
    files = {name for record in tmp_path.glob("mapped-*") for name in record.read_text().split()}
    assert len(list(tmp_path.glob("mapped-*"))) == 2
    assert not [name for name in files if Path(name).exists()]
