"""The executor's tables walked in plain Python: every rank in one process, in random order.

It shares no code with the interpreter: it follows the column meanings and the slot rules alone,
with a random one of the ranks that can go on taking the next step. Slots start as garbage, every
access is checked against its buffer's end, and ranks that all wait are a deadlock. A rank whose
arrays are registered scribbles over them as soon as it has ended: who reads them later is found.
"""

import functools
from unittest.mock import patch

import numpy as np

from hcom.executor import compile as compiler
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
        self.cleared = -1
        self.free_at = [{} for _ in range(SLOTS)]  # slot -> {reader: its `done` that frees it}
        self.buffers, self.registered = {}, set()

    def take_arrays(self, source, target, registered=()):
        scratch = np.full(self.tables.scratch_bytes, GARBAGE, np.uint8)
        self.buffers = {t.INPUT: source, t.OUTPUT: target, t.SCRATCH: scratch}
        self.registered = {*registered} if self.tables.direct else set()

    def scribble(self):
        """Overwrite what the caller has back; what it was is put back by `restore`."""
        self.saved = {array: self.buffers[array].copy() for array in self.registered}
        for array in self.registered:
            self.buffers[array][:] = GARBAGE

    def restore(self):
        for array, value in self.saved.items():
            self.buffers[array][:] = value

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


def free_slot(ranks, here, number):
    """Wait for the readers of a slot's last use; then it holds nothing any more."""
    me, slot = ranks[here], number % SLOTS
    for reader, freed in me.free_at[slot].items():
        yield lambda reader=reader, freed=freed: ranks[reader].done >= freed
    if me.free_at[slot] or me.cleared != number:
        me.slots[slot] = GARBAGE
    me.free_at[slot], me.cleared = {}, number


def stage(ranks, here, row, number, index):
    """Copy what a rank sends in a step into its slot; yields what it waits for."""
    me, slot = ranks[here], number % SLOTS
    readers = me.tables.reader[row[t.READER_BEGIN] : row[t.READER_END]]
    rows = me.tables.stage[row[t.STAGE_BEGIN] : row[t.STAGE_END]]
    if not rows and not readers:
        return
    yield from free_slot(ranks, here, number)
    used = np.zeros(me.slot_bytes, bool)
    for buffer, offset, length, size, at, array in rows:
        nbytes = piece(length, size, index)
        assert not used[at : at + nbytes].any(), "two pieces overlap in a slot"
        assert at % 64 == 0, "a piece does not start on a cache line"
        used[at : at + nbytes] = True
        if array not in me.registered:
            me.slot_view(slot, at, nbytes)[:] = me.view(buffer, offset + index * size, nbytes)
    me.staged = number + 1
    me.free_at[slot] = dict.fromkeys(readers, number + 1)


def guarded(ranks, rows, number_of):
    """Wait for the peers that must have read before."""
    for peer, when in rows:
        freed = number_of(when) + 1
        yield lambda peer=peer, freed=freed: ranks[peer].done >= freed


def find(ranks, me, operand, slot, shift, nbytes):
    """The bytes of an operand: here, in a peer's registered array, or in its slot."""
    peer, own, at, array, place = operand
    if peer < 0:
        return me.view(own, at + shift, nbytes)
    if array in ranks[peer].registered:
        return ranks[peer].view(array, place + shift, nbytes)
    return ranks[peer].slot_view(slot, at, nbytes)


def write(ranks, here, row, number, index, lanes, fold):
    """Make what a rank receives in a step, and its twins in the next slot."""
    me, next_slot = ranks[here], (number + lanes) % SLOTS
    senders = me.tables.sender[row[t.SENDER_BEGIN] : row[t.SENDER_END]]
    rows = me.tables.write[row[t.WRITE_BEGIN] : row[t.WRITE_END]]
    for buffer, offset, length, size, begin, end, twin, array, streamed in rows:
        nbytes, shift = piece(length, size, index), index * size
        operands = me.tables.operand[begin:end]
        assert {operand[0] for operand in operands} - {-1} <= {here, *senders}
        values = [find(ranks, me, o, number % SLOTS, shift, nbytes).copy() for o in operands]
        value = fold(values)
        assert not streamed or buffer == t.OUTPUT
        if buffer == t.NEXT_SLOT:
            me.slot_view(next_slot, offset, nbytes)[:] = value
        else:
            me.view(buffer, offset + shift, nbytes)[:] = value
        if twin >= 0 and array not in me.registered:
            me.slot_view(next_slot, twin, nbytes)[:] = value


def receive(ranks, here, row, number, index, lanes, number_of, fold):
    """Take what a rank receives in a step; yields what it waits for."""
    me = ranks[here]
    senders = me.tables.sender[row[t.SENDER_BEGIN] : row[t.SENDER_END]]
    for sender in senders:
        yield lambda sender=sender: ranks[sender].staged >= number + 1
    if me.registered:
        yield from guarded(ranks, me.tables.guard[row[t.GUARD_BEGIN] : row[t.GUARD_END]], number_of)
    if row[t.FUSES]:
        yield from free_slot(ranks, here, number + lanes)
    write(ranks, here, row, number, index, lanes, fold)
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

    def number_of(index):
        """The number of a slice's step in a round."""
        first_of = {s[2]: s[1] for s in reversed(steps)}
        return lambda when: first_of[index] + when * lanes

    for step in steps[:lanes]:
        yield from stage(ranks, here, *step)
    for source, start, target, offset, nbytes in tables.copy:
        value = ranks[here].view(source, start, nbytes).copy()
        ranks[here].view(target, offset, nbytes)[:] = value
    for number, step in enumerate(steps):
        yield from receive(ranks, here, *step, lanes, number_of(step[2]), fold)
        for ahead in steps[number + lanes : number + lanes + 1]:
            yield from stage(ranks, here, *ahead)
    if ranks[here].registered:
        yield from guarded(ranks, tables.final, number_of(tables.slices - 1))
    ranks[here].scribble()


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
    """Runs one compiled schedule, as often as wanted, on the same slots.

    `registered` gives, for each rank, which of its arrays peers read themselves.
    """

    def __init__(self, schedule, counts, slot_bytes, registered=None):
        topology = uniform(schedule.rank_size, 1e-6, 1e-9)
        self.registered = registered or [()] * schedule.rank_size
        with patch.object(compiler, "DIRECT_BYTES", 0 if registered else 1 << 60):
            self.tables = [
                compile_tables(schedule, counts, rank, slot_bytes, topology)
                for rank in range(schedule.rank_size)
            ]
        self.ranks = [SimulatedRank(tables, slot_bytes) for tables in self.tables]
        self.step = 0

    def run(self, sources, targets, ufunc, dtype, seed=0):
        """Run once on byte arrays: `ufunc` folds values of `dtype` from left to right."""

        def fold(operands):
            return functools.reduce(ufunc, [x.view(dtype) for x in operands]).view(np.uint8)

        for rank, *arrays in zip(self.ranks, sources, targets, self.registered, strict=True):
            rank.take_arrays(*arrays)
        count = range(len(self.ranks))
        programs = [program(self.ranks, here, self.step, fold) for here in count]
        walk(programs, np.random.default_rng(seed))
        for rank in self.ranks:
            rank.restore()
        assert len({(len(x.rounds), x.slices) for x in self.tables}) == 1
        self.step += len(self.tables[0].rounds) * self.tables[0].slices
