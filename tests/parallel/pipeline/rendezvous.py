"""A group of threads in one process where a send ends only with its receive.

Every rank has a device on the `unit` profile; a message moves when both ends are posted and takes
`latency` of device time. A deadlock is noticed at once and raised on every rank.
"""

import importlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from hcom.device import Device, load_profile
from parallel.pipeline import run

run_module = importlib.import_module("parallel.pipeline.run")


class Deadlock(AssertionError):
    pass


class World:
    def __init__(self, size, latency=0.0):
        self.size, self.latency = size, latency
        self.devices = [Device(load_profile("unit")) for _ in range(size)]
        self._changed = threading.Condition()
        self._posted = {}
        self._ends = {}
        self._waiting = {}
        self._running = set(range(size))
        self._broken = False

    def complete(self, rank, operations):
        device = self.devices[rank]
        keys = []
        with self._changed:
            for kind, array, peer, tag in operations:
                src, dst = (rank, peer) if kind == "send" else (peer, rank)
                key = (src, dst, tag)
                self._post(key, kind, array, device.compute_time)
                keys.append(key)
            self._changed.notify_all()
            self._waiting[rank] = keys
            while not self._complete(rank) and not self._broken:
                self._look_for_deadlock()
                if not self._broken:
                    assert self._changed.wait(timeout=20), "nothing moves"
            del self._waiting[rank]
            if self._broken:
                raise Deadlock(f"rank {rank} waits for {keys}")
            for key in keys:
                device.join(self._ends[key])

    def leave(self, rank):
        with self._changed:
            self._running.discard(rank)
            self._look_for_deadlock()
            self._changed.notify_all()

    def _post(self, key, kind, array, time):
        ends = self._posted.setdefault(key, {})
        assert kind not in ends, f"{kind} {key} is posted twice"
        ends[kind] = (array, time)
        if len(ends) == 2:
            (source, sent), (target, wanted) = ends["send"], ends["recv"]
            target[...] = source
            self._ends[key] = max(sent, wanted) + self.latency

    def _complete(self, rank):
        return all(key in self._ends for key in self._waiting[rank])

    def _look_for_deadlock(self):
        if self._running and all(
            rank in self._waiting and not self._complete(rank) for rank in self._running
        ):
            self._broken = True
            self._changed.notify_all()


class Member:
    def __init__(self, world, rank):
        self.rank, self._world = rank, world

    def batch_send_recv(self, operations):
        self._world.complete(self.rank, operations)


@contextmanager
def own_devices(world):
    """Let each thread of a run find its rank's device."""
    original, local = run_module.current, threading.local()
    run_module.current = lambda: local.device
    try:
        yield lambda rank: setattr(local, "device", world.devices[rank])
    finally:
        run_module.current = original


def run_on_all(world, body):
    """Run body(member) on a thread a rank; raise what a rank raised, a deadlock last."""

    def main(rank):
        take_device(rank)
        try:
            body(Member(world, rank))
        finally:
            world.leave(rank)

    with own_devices(world) as take_device, ThreadPoolExecutor(world.size) as pool:
        futures = [pool.submit(main, rank) for rank in range(world.size)]
    errors = [future.exception() for future in futures if future.exception()]
    for error in sorted(errors, key=lambda error: isinstance(error, Deadlock)):
        raise error


def run_plan(plan, chunks_of, shape, latency=0.0):
    """Run a plan on threads; chunks_of[rank] are its stage functions. Returns the world."""
    world = World(plan.stages, latency)
    run_on_all(
        world,
        lambda member: run(plan, member, chunks_of[member.rank], shape=shape, dtype="float64"),
    )
    return world
