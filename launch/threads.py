"""Threads for each rank: the cores of this host, divided among its ranks."""

import os
from collections.abc import Mapping
from pathlib import Path

# Read once, when numpy, BLAS, OpenMP or numba is loaded: to be set before a rank's Python starts.
VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "quota period" or "max period", microseconds


def cores() -> int:
    """Count the cores that this process may use: its affinity, and its container's quota."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return allowed


def threads_per_rank(ranks: int) -> int:
    """Divide this host's cores among `ranks`; at least one thread each."""
    return max(1, cores() // ranks)


def thread_variables(ranks: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Give the variables to add to `environment`; what the user has set stays as it is."""
    threads = str(threads_per_rank(ranks))
    return {name: threads for name in VARIABLES if name not in environment}
