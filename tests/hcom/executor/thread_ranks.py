"""Ranks as threads of one process: each has an arena, a host and a session of its own.

The kernels hold no interpreter lock, so the threads run beside each other as processes would.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hcom.executor import tables as t
from hcom.executor.compile import compile_tables
from hcom.executor.fold import fold_address
from hcom.executor.program import Program
from hcom.executor.run import run
from hcom.executor.session import Session, Sizes
from hcom.topology import uniform
from hcom.transport.arena import Arena
from hcom.transport.doorbell import AGAIN, CAME
from hcom.transport.host import Host
from hcom.transport.layout import window_bytes

LIMIT = 20.0  # s


class ThreadRanks:
    """A group of ranks in this process."""

    def __init__(self, size, slot=4096, stream=4096, limit=LIMIT):
        self.size, self.slot = size, slot
        self.topology = uniform(size, 1e-6, 1e-9, 1e-10)
        need = window_bytes(size, slot, stream)
        arenas = [Arena.create(2 * need) for _ in range(size)]
        names = [arena.name for arena in arenas]
        self.hosts = [Host(rank, arena, names) for rank, arena in enumerate(arenas)]
        for host in self.hosts:
            host.spin_limit = 0
        offsets = [arena.allocate(need) for arena in arenas]
        sizes = Sizes(slot, stream)
        self.sessions = [Session(host, range(size), offsets, sizes, limit) for host in self.hosts]

    def close(self):
        for host in self.hosts:
            host.end()

    def each(self, function):
        """Call a function with every rank's number, each on a thread; the results by rank."""
        with ThreadPoolExecutor(self.size) as pool:
            futures = [pool.submit(function, rank) for rank in range(self.size)]
            return [future.result(timeout=3 * LIMIT) for future in futures]

    def bind(self, schedule, counts, kind=None, op="", description=None):
        """Make every rank's program of a schedule; `description` may be one for each rank."""
        programs = []
        for rank in range(self.size):
            told = description[rank] if description else f"{schedule.title} {counts}"
            tables = compile_tables(schedule, counts, rank, self.slot, self.topology)
            others = [peer for peer in range(self.size) if peer != rank]
            fold = fold_address(kind, op) if op else 0
            item = kind.nbytes if kind else 1
            programs.append(Program(tables, fold, item, told, tables.peers or others))
        return programs

    def run(self, programs, sources, targets):
        """Run an operation on all threads."""

        def here(rank):
            programs[rank].point_at(sources[rank], targets[rank])
            self.sessions[rank].run(programs[rank])

        self.each(here)

    def begin(self, programs, sources, targets):
        """Get an operation ready to be run step by step, by `step`."""
        for session, program, source, target in zip(
            self.sessions, programs, sources, targets, strict=True
        ):
            session.words[t.SEQUENCE] += 1
            session.words[t.POLLS] = 1  # a wait returns at once
            program.point_at(source, target)

    def step(self, rank, programs):
        """Run one rank on as far as it goes without waiting; what it came to."""
        return run(self.sessions[rank].address, programs[rank].address)

    def run_in_turn(self, programs, sources, targets, seed=0):
        """Run an operation on this thread alone, a random rank at a time; how often one waited."""
        self.begin(programs, sources, targets)
        rng = np.random.default_rng(seed)
        left, waited = list(range(self.size)), 0
        while left:
            rank = left[rng.integers(len(left))]
            came = self.step(rank, programs)
            assert came in (CAME, AGAIN)
            waited += came == AGAIN
            assert waited < 100_000, "the ranks stand still"
            if came == CAME:
                left.remove(rank)
        for session in self.sessions:
            session.words[t.POLLS] = 0
        return waited
