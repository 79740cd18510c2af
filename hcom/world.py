"""The world of a job: MPI starts it, shared memory carries it, `finalize` ends it."""

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from hcom.arguments import check_rank
from hcom.communicator import Communicator, NonMember
from hcom.config import CommunicatorConfig, exec_timeout
from hcom.device import current
from hcom.errors import HcomError
from hcom.executor.session import Session, Sizes
from hcom.failure import report_failures
from hcom.runtime import Runtime
from hcom.statistics import Record, Statistics
from hcom.topology import Topology, from_profile
from hcom.transport.arena import Arena
from hcom.transport.host import Host, open_host
from hcom.transport.layout import window_bytes
from hcom.work import Engine

# Bytes of a staging slot: pieces stay in the second-level cache while ranks have cores of their
# own; when they do not, larger pieces save switches between them.
SLOT_BYTES = 256 << 10
SLOT_BYTES_CROWDED = 1 << 20


@dataclass
class World:
    """What a process holds between `init` and `finalize`."""

    runtime: Runtime
    topology: Topology
    group: Communicator


_world: World | None = None


def init(config: CommunicatorConfig | None = None) -> None:
    """Join the job: every rank calls this once, first.

    Without a launcher the job has one rank.

    Raises
    ------
    HcomError : already initialised, or the ranks cannot reach each other's memory.
    ConfigError : an environment variable or a field of `config` is wrong.
    """
    global _world
    if _world is not None:
        raise HcomError("hcom is already initialised: call hcom.init() once, or finalize() first")
    limit = (config or CommunicatorConfig()).timeout(exec_timeout())
    host, names = _meet()
    report_failures(host)
    size = len(names)
    _share_cores(size)
    sizes = Sizes(SLOT_BYTES if host.spin_limit else SLOT_BYTES_CROWDED)
    topology = _world_topology(size)
    runtime = Runtime(host, Engine(host.arena.address), sizes, Statistics())
    offset = host.arena.allocate(window_bytes(size, sizes.slot, sizes.stream))
    offsets = _all_gather(np.array([offset], np.int64))
    session = Session(host, range(size), offsets, sizes, limit)
    _world = World(runtime, topology, Communicator("world", session, topology, runtime))


def _share_cores(ranks: int) -> None:
    """Give each rank its share of the cores, where neither the launcher nor the user has.

    A plain `mpirun` sets no thread variables: every rank would start as many threads as there are
    cores, and they would spin for each other's time slices.
    """
    if "NUMBA_NUM_THREADS" not in os.environ:
        numba.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))


def _mpi() -> Any:
    """Return MPI's world communicator; importing mpi4py starts MPI."""
    from mpi4py import MPI

    return MPI.COMM_WORLD


def _all_gather(mine: np.ndarray) -> list[int]:
    """Exchange equal int64 arrays over MPI: only what is needed before shared memory is there."""
    everyone = np.empty(mine.size * _mpi().Get_size(), mine.dtype)
    _mpi().Allgather(mine, everyone)
    return [int(value) for value in everyone]


def _meet() -> tuple[Host, list[bytes]]:
    """Make this rank's arena and open the others'."""
    arena = Arena.create()
    values = _all_gather(np.frombuffer(arena.name.to_bytes(), np.int64).copy())
    width = 3
    names = [
        np.array(values[start : start + width], np.int64).tobytes()
        for start in range(0, len(values), width)
    ]
    return open_host(_mpi().Get_rank(), names, arena), names


def _world_topology(size: int) -> Topology:
    """Fill servers of the device profile one after another."""
    profile = current().profile
    full, rest = divmod(size, profile.npus_per_server)
    return from_profile(profile, [profile.npus_per_server] * full + [rest] * bool(rest))


def world() -> World:
    """Return this process's world.

    Raises
    ------
    HcomError : `init` has not been called.
    """
    if _world is None:
        raise HcomError("hcom is not initialised: call hcom.init() first")
    return _world


def finalize() -> None:
    """Leave the job, after all asynchronous operations; all ranks may then call `init` again."""
    global _world
    if _world is None:
        return
    left, _world = _world, None
    try:
        if left.group.usable:
            left.runtime.engine.wait_all()
            left.group.barrier()
    finally:
        left.runtime.engine.end()
        left.runtime.host.end()


def _leave() -> None:
    """At exit: tell the others that this rank takes part in nothing more."""
    global _world
    if _world is not None:
        _world.runtime.engine.end()
        _world.runtime.host.end()
        _world = None


atexit.register(_leave)


def rank() -> int:
    """Return this process's rank in the world."""
    return world().group.rank


def rank_size() -> int:
    """Return the number of ranks in the world."""
    return world().group.rank_size


def local_rank() -> int:
    """Return this process's rank among those of its (emulated) server."""
    server_of = world().topology.server_of
    return int(np.count_nonzero(server_of[: rank()] == server_of[rank()]))


def statistics() -> list[Record]:
    """Return what this process's communicators have done since `init`."""
    return world().runtime.statistics.records()


def new_group(
    ranks: Sequence[int], config: CommunicatorConfig | None = None
) -> Communicator | NonMember:
    """Make a group of some ranks of the world.

    Every rank of the world calls this, with the same ranks and in the same order of calls; one
    that is not in `ranks` gets a handle that names them and refuses use.

    Parameters
    ----------
    ranks : ranks of the world; the group's rank i is `ranks[i]`.
    config : what differs from the environment.

    Raises
    ------
    TypeError, ValueError : not different ranks of the world, or none at all.
    MismatchError : ranks of the world called with different groups.
    """
    everyone = world().group
    chosen = [check_rank(value, "ranks", everyone.rank_size) for value in ranks]
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks must be different ranks of the world, not {chosen}")
    config = config or CommunicatorConfig()
    return everyone.subgroup(chosen, config.name, config, agreed=True)
