"""Waiting between processes: nothing is lost, every wait comes back, a fault ends it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hcom.transport import layout
from hcom.transport.arena import Arena
from hcom.transport.doorbell import AGAIN, CAME, FAULTED, SPINS, TURN_NANOSECONDS, spins, wait_for
from hcom.transport.layout import PAGE

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
ROUNDS = 5000


def run_script(name, folder, *arguments):
    """Run a script with kernels of its own; the lines it prints. The time limit is hard."""
    done = subprocess.run(
        [sys.executable, str(HERE / name), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_waiter_never_sleeps_after_it_was_rung_for(tmp_path):
    """In every order of the steps of waiter and waker."""
    *slept, orders = run_script("interleaved.py", tmp_path)
    assert slept == []
    assert int(orders.removesuffix(" orders")) >= 21  # 2 steps among at least 5


def test_two_that_wake_each_other_lose_no_wake_up(tmp_path):
    """Each would cost a second's sleep and is counted."""
    assert run_script("hammer.py", tmp_path, str(ROUNDS)) == [
        f"by_{kind} on {cores}: 0" for kind in ("threads", "processes") for cores in (1, 2)
    ]


class Waiter:
    """A header, a window and a word in an arena, and the wait for the word."""

    def __init__(self):
        self.arena = Arena.create(16 * PAGE)
        self.header = self.arena.address
        self.window, self.word = self.header + PAGE, self.header + 2 * PAGE

    def write(self, address, value):
        start = address - self.arena.address
        self.arena.memory[start : start + 8] = value.to_bytes(8, "little")

    def read(self, address):
        start = address - self.arena.address
        return int.from_bytes(self.arena.memory[start : start + 8], "little")

    def wait(self, target, spin_limit=0):
        return wait_for(self.word, target, self.header, self.window, spin_limit)


@pytest.fixture
def waiter():
    made = Waiter()
    yield made
    os.close(made.arena.name.file)


@pytest.mark.parametrize("spin_limit", [0, SPINS])
def test_a_word_that_is_there_is_not_waited_for(waiter, spin_limit):
    waiter.write(waiter.word, 5)
    for target in (0, 4, 5):
        assert waiter.wait(target, spin_limit) == CAME
    assert waiter.read(waiter.header + layout.TURNS) == 0
    assert waiter.read(waiter.header + layout.DOORBELL) == 0


def test_a_wait_for_nothing_comes_back_to_python_and_leaves_no_sleeper(waiter):
    began = time.monotonic()
    assert waiter.wait(1) == AGAIN
    assert time.monotonic() - began >= TURN_NANOSECONDS * 1e-9
    assert waiter.read(waiter.header + layout.SLEEPERS) == 0
    assert waiter.read(waiter.header + layout.TURNS) == 0


def test_a_fault_ends_a_wait(waiter):
    waiter.write(waiter.window + layout.FAULT, layout.LOST)
    assert waiter.wait(1) == FAULTED
    waiter.write(waiter.word, 1)
    assert waiter.wait(1) == CAME  # what has come counts


def test_a_wait_that_ends_late_is_counted_as_a_turn(waiter):
    def come():
        time.sleep(0.02)
        waiter.write(waiter.word, 1)

    peer = threading.Thread(target=come)
    peer.start()
    while waiter.wait(1) == AGAIN:
        pass
    peer.join()
    assert waiter.read(waiter.header + layout.TURNS) == 1
    assert waiter.read(waiter.header + layout.SLEEPERS) == 0


def test_waiters_spin_only_where_each_rank_has_a_core():
    cores = len(os.sched_getaffinity(0))
    assert spins(cores) == SPINS
    assert spins(cores + 1) == 0
