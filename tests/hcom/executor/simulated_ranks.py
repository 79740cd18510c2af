"""The executor's tables walked in plain Python: every rank in one process, in random order.

It shares no code with the interpreter: it follows the column meanings and the slot rules alone,
with a random one of the ranks that can go on taking the next step. Slots start as garbage, every
access is checked against its buffer's end, and ranks that all wait are a deadlock.
"""

import functools

import numpy as np

from hcom.executor import tables as t
from hcom.executor.compile import compile_tables
from hcom.topology import uniform
from hcom.transport.layout import SLOTS

GARBAGE = 0xA5


class Deadlock(AssertionError):
    """No rank can go on."""


class SimulatedRank:
    """One rank's tables, buffers, slots and counters."""

    def __init__(self, tables, slot_bytes):
        self.tables, self.slot_bytes = tables, slot_bytes
        self.slots = np.full((SLOTS, slot_bytes), GARBAGE, np.uint8)
        self.staged = self.done = 0
        self.free_at = [{} for _ in range(SLOTS)]  # slot -> {reader: its `done` that frees it}
        self.buffers = {}

    def take_arrays(self, source, target):
        scratch = np.full(self.tables.scratch_bytes, GARBAGE, np.uint8)
        self.buffers = {t.INPUT: source, t.OUTPUT: target, t.SCRATCH: scratch}

    def view(self, buffer, offset, nbytes):
        if nbytes == 0:  # a slice past the end of a short position
            return np.empty(0, np.uint8)
        memory = self.buffers[buffer]
        assert 0 <= offset <= offset + nbytes <= memory.size, "outside the buffer"
        return memory[offset : offset + nbytes]

    def slot_view(self, slot, offset, nbytes):
        assert 0 <= offset <= offset + nbytes <= self.slot_bytes, "outside the slot"
        return self.slots[slot, offset : offset + nbytes]


def piece(length, size, index):
    return max(0, min(size, length - index * size))


def stage(ranks, here, row, number, index):
    """Copy what a rank sends in a step into its slot; yields what it waits for."""
    me, slot = ranks[here], number % SLOTS
    if row[t.STAGE_BEGIN] == row[t.STAGE_END]:
        return
    for reader, freed in me.free_at[slot].items():
        yield lambda reader=reader, freed=freed: ranks[reader].done >= freed
    me.slots[slot] = GARBAGE
    used = np.zeros(me.slot_bytes, bool)
    for buffer, offset, length, size, at in me.tables.stage[row[t.STAGE_BEGIN] : row[t.STAGE_END]]:
        nbytes = piece(length, size, index)
        assert not used[at : at + nbytes].any(), "two pieces overlap in a slot"
        assert at % 64 == 0, "a piece does not start on a cache line"
        used[at : at + nbytes] = True
        me.slot_view(slot, at, nbytes)[:] = me.view(buffer, offset + index * size, nbytes)
    me.staged = number + 1
    readers = me.tables.reader[row[t.READER_BEGIN] : row[t.READER_END]]
    me.free_at[slot] = dict.fromkeys(readers, number + 1)


def receive(ranks, here, row, number, index, fold):
    """Fold or copy what a rank receives in a step; yields what it waits for."""
    me = ranks[here]
    senders = me.tables.sender[row[t.SENDER_BEGIN] : row[t.SENDER_END]]
    for sender in senders:
        yield lambda sender=sender: ranks[sender].staged >= number + 1
    for buffer, offset, length, size, begin, end in me.tables.write[
        row[t.WRITE_BEGIN] : row[t.WRITE_END]
    ]:
        nbytes = piece(length, size, index)
        operands = [
            ranks[peer].slot_view(number % SLOTS, at, nbytes)
            if peer >= 0
            else me.view(own, at + index * size, nbytes)
            for peer, own, at in me.tables.operand[begin:end]
        ]
        assert {peer for peer, _, _ in me.tables.operand[begin:end]} - {-1} <= {here, *senders}
        me.view(buffer, offset + index * size, nbytes)[:] = fold([x.copy() for x in operands])
    if senders:
        me.done = number + 1


def program(ranks, here, first, fold):
    """One rank's whole operation, whose first step has the number `first`."""
    tables = ranks[here].tables
    rounds, lanes = len(tables.rounds), 1 if tables.slices == 1 else 2
    assert tables.slices % lanes == 0
    steps = [
        (tables.rounds[r], first + pair * rounds * lanes + r * lanes + lane, pair * lanes + lane)
        for pair in range(tables.slices // lanes)
        for r in range(rounds)
        for lane in range(lanes)
    ]
    for step in steps[:lanes]:
        yield from stage(ranks, here, *step)
    for source, start, target, offset, nbytes in tables.copy:
        value = ranks[here].view(source, start, nbytes).copy()
        ranks[here].view(target, offset, nbytes)[:] = value
    for number, step in enumerate(steps):
        yield from receive(ranks, here, *step, fold)
        for ahead in steps[number + lanes : number + lanes + 1]:
            yield from stage(ranks, here, *ahead)


def walk(programs, rng):
    """Advance a random program that can go on, until all have ended."""
    waiting = [lambda: True for _ in programs]
    while any(waiting):
        ready = [n for n, condition in enumerate(waiting) if condition and condition()]
        if not ready:
            raise Deadlock([n for n, condition in enumerate(waiting) if condition])
        chosen = ready[rng.integers(len(ready))]
        waiting[chosen] = next(programs[chosen], None)


class SimulatedGroup:
    """Runs one compiled schedule, as often as wanted, on the same slots."""

    def __init__(self, schedule, counts, slot_bytes):
        topology = uniform(schedule.rank_size, 1e-6, 1e-9)
        self.ranks = [
            SimulatedRank(compile_tables(schedule, counts, rank, slot_bytes, topology), slot_bytes)
            for rank in range(schedule.rank_size)
        ]
        self.tables = [rank.tables for rank in self.ranks]
        self.step = 0

    def run(self, sources, targets, ufunc, dtype, seed=0):
        """Run once on byte arrays: `ufunc` folds values of `dtype` from left to right."""

        def fold(operands):
            return functools.reduce(ufunc, [x.view(dtype) for x in operands]).view(np.uint8)

        for rank, source, target in zip(self.ranks, sources, targets, strict=True):
            rank.take_arrays(source, target)
        count = range(len(self.ranks))
        programs = [program(self.ranks, here, self.step, fold) for here in count]
        walk(programs, np.random.default_rng(seed))
        assert len({(len(x.rounds), x.slices) for x in self.tables}) == 1
        self.step += len(self.tables[0].rounds) * self.tables[0].slices
