"""Threads per rank."""

import os

import pytest

from launch import threads
from launch.threads import VARIABLES, cores, thread_variables, threads_per_rank


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Pretend to have so many cores, and a container's quota."""

    def pretend(affinity, quota="max 100000"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affinity)), raising=False)
        (tmp_path / "cpu.max").write_text(quota)
        monkeypatch.setattr(threads, "_QUOTA", tmp_path / "cpu.max")

    return pretend


@pytest.mark.parametrize(("ranks", "each"), [(1, 8), (2, 4), (3, 2), (8, 1), (9, 1)])
def test_cores_are_divided_and_every_rank_has_a_thread(machine, ranks, each):
    machine(8)
    assert threads_per_rank(ranks) == each
    assert thread_variables(ranks, {}) == dict.fromkeys(VARIABLES, str(each))


def test_what_the_user_has_set_is_not_given_again(machine):
    machine(4)
    given = thread_variables(2, {"OMP_NUM_THREADS": "100"})
    assert set(given) == set(VARIABLES) - {"OMP_NUM_THREADS"}


@pytest.mark.parametrize(
    ("quota", "count"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8)]
)
def test_a_containers_quota_counts_like_cores(machine, quota, count):
    machine(8, quota)
    assert cores() == count
