"""The runner of the multi-rank tests: no verdict is lost, and no hang goes on."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

PROLOGUE = """
import os, time
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
"""


@pytest.fixture
def run_tests(tmp_path):
    """Run test functions on two ranks; give output and status; no process may be left."""
    mark = uuid.uuid4().hex

    def run(source, *options):
        shutil.copy(TESTS / "ranks/conftest.py", tmp_path)
        (tmp_path / "test_stand_in.py").write_text(PROLOGUE + source)
        done = subprocess.run(
            [sys.executable, TESTS / "run_ranks.py", "--sizes", "2", *options, tmp_path],
            env=os.environ | {"HCOM_TEST_MARK": mark},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr, done.returncode

    yield run
    until = time.monotonic() + 5
    while _processes(mark):
        assert time.monotonic() < until, "processes are left"
        time.sleep(0.05)


def _processes(mark):
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in environment.read_bytes():
                found.append(environment)
    return found


def test_an_assertion_on_one_rank_fails_the_test_on_all_and_shows_that_rank(run_tests):
    output, status = run_tests("def test_a(): assert rank == 0, 'one of us is wrong'")
    assert status == 1
    assert "on rank 1:" in output
    assert "AssertionError: one of us is wrong" in output
    assert "no end in sight" not in output


def test_a_failure_that_all_ranks_share_does_not_stop_the_tests_after_it(run_tests):
    output, status = run_tests("def test_a(): assert False\ndef test_b(): pass")
    assert status == 1
    assert "1 failed, 1 passed" in output


def test_a_fixture_that_fails_on_one_rank_keeps_the_others_out_of_the_test(run_tests):
    source = """
import pytest
@pytest.fixture
def broken(): assert rank == 0
def test_a(broken): MPI.COMM_WORLD.Barrier()
"""
    output, status = run_tests(source)
    assert status == 1
    assert "1 error" in output


def test_a_hang_fails_with_what_each_rank_was_doing(run_tests):
    source = """
def test_a():
    if rank == 1:
        wait_for_a_message_that_never_comes()
    assert rank == 1, 'rank 0 gave up'
def wait_for_a_message_that_never_comes():
    while True: time.sleep(0.1)
"""
    output, status = run_tests(source, "--hang", "12")
    assert status == 1
    assert " s without progress" in output
    assert "AssertionError: rank 0 gave up" in output
    assert "in wait_for_a_message_that_never_comes" in output


def test_a_rank_that_ends_fails_the_launch_with_its_last_words(run_tests):
    source = """
def test_a():
    if rank == 1:
        os.write(2, b'no more\\\\n')
        os._exit(3)
    time.sleep(30)
"""
    output, status = run_tests(source, "-s")
    assert status == 1
    assert "no more" in output


def test_tests_for_other_numbers_of_ranks_are_left_out(run_tests):
    source = """
import pytest
@pytest.mark.ranks(2, 4)
def test_a(): pass
@pytest.mark.ranks(3)
def test_b(): assert False
"""
    output, status = run_tests(source)
    assert status == 0
    assert "1 passed, 1 deselected" in output
