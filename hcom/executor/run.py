"""The interpreter of bound schedules: one call runs a whole collective without Python.

A *step* is one round of one slice. In a step a rank stages what it sends in a slot of its window
and publishes the step's number; who reads waits for that number, folds or copies straight from
the slot, and publishes that it is done, which frees the slot. Step numbers go on through all
operations of a communicator and every rank counts the same, so no other message is needed.
With two lanes the slices of a pair alternate, so that a rank stages the next slice before it
waits for the current one. What a step writes for the next round to send goes straight into that
round's slot; what stands in registered arrays is read there, without any staging.

`run` can be left at any wait and called again: a step waits before it writes.
"""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.agree import announce, compare, describe, descriptor_at
from hcom.executor.move import copy_untouched, fill_slot, write
from hcom.executor.tables import float_rows, floats, rows, words
from hcom.executor.wait import ring_some, wait, wait_done
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import fence, load_float, store_float, store_release
from hcom.transport.doorbell import CAME


@jit(inline=True)
def _round_and_slice(step: int, rounds: int, lanes: int) -> Any:
    """Which round of which slice a step is: the slices of a pair alternate."""
    pair, inside = step // (rounds * lanes), step % (rounds * lanes)
    return inside // lanes, pair * lanes + inside % lanes


@jit(inline=True)
def _number_of(session: Any, program: Any, index: int, round_number: int) -> int:
    """Give the number of the step of a round of a slice."""
    rounds, lanes = program[t.ROUNDS], program[t.LANES]
    pair, lane = index // lanes, index % lanes
    return int(session[t.STEP] + (pair * rounds + round_number) * lanes + lane)


@jit()
def _free_slot(session: Any, number: int) -> int:
    """Wait until every reader of the last use of a step's slot is past it."""
    size = session[t.RANK_SIZE]
    free_at = rows(session[t.READERS], layout.SLOTS, size)[number % layout.SLOTS]
    for peer in range(size):
        if free_at[peer] != 0:
            came = wait_done(session, peer, free_at[peer] - 1)
            if came != CAME:
                return came
            free_at[peer] = 0
    return CAME


@jit(inline=True)
def _has_readers(row: Any) -> bool:
    """Whether this rank sends anything in a round."""
    sends = row[t.READER_END] - row[t.READER_BEGIN] + row[t.STAGE_END] - row[t.STAGE_BEGIN]
    return bool(sends > 0)


@jit()
def _stage(session: Any, program: Any, step: int) -> int:
    """Put what this rank sends in a step into a free slot and publish the step."""
    rounds = program[t.ROUNDS]
    round_number, index = _round_and_slice(step, rounds, program[t.LANES])
    row = rows(program[t.ROUND_TABLE], rounds, t.ROUND_COLUMNS)[round_number]
    if not _has_readers(row):
        return CAME
    number = session[t.STEP] + step
    came = _free_slot(session, number)
    if came != CAME:
        return came
    if row[t.STAGE_BEGIN] < row[t.STAGE_END]:
        fill_slot(session, program, row, number, index)
    if index == 0:
        place = _clock_at(session, program, session[t.WINDOW], number)
        store_float(place, load_float(session[t.CLOCK]))
    store_release(session[t.WINDOW] + layout.STAGED, number + 1)
    slot = number % layout.SLOTS
    free_at = rows(session[t.READERS], layout.SLOTS, session[t.RANK_SIZE])[slot]
    readers = words(program[t.READER_TABLE], row[t.READER_END])
    for i in range(row[t.READER_BEGIN], row[t.READER_END]):
        free_at[readers[i]] = number + 1
    ring_some(session, readers, row[t.READER_BEGIN], row[t.READER_END])
    return CAME


@jit(inline=True)
def _clock_at(session: Any, program: Any, window: int, number: int) -> int:
    """Give the address of a member's clock at the start of a step."""
    if program[t.SHORT] != 0:
        return int(descriptor_at(window, session[t.SEQUENCE]) + layout.CLOCK)
    return int(window + layout.CLOCKS + number % layout.CLOCKS_KEPT * 8)


@jit()
def _advance_clock(session: Any, program: Any, round_number: int, row: Any, number: int) -> None:
    """Move the device clock past a round, as `hcom.schedule.price` does.

    The round ends when this rank's sends have left and its receives have come and are reduced.
    """
    end = row[t.SENDER_END]
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    senders = words(program[t.SENDER_TABLE], end)
    arrival = floats(program[t.ARRIVAL_TABLE], end)
    cost = float_rows(program[t.COST_TABLE], program[t.ROUNDS], 2)[round_number]
    start = load_float(session[t.CLOCK])
    come = start
    for i in range(row[t.SENDER_BEGIN], end):
        clock = load_float(_clock_at(session, program, windows[senders[i]], number))
        come = max(come, clock + arrival[i])
    store_float(session[t.CLOCK], max(come + cost[1], start + cost[0]))


@jit(inline=True)
def _reads_its_arrays(program: Any) -> bool:
    """Whether peers may read an array of this rank itself."""
    own = words(program[t.OWN_ARRAYS], 2)
    return bool(own[t.INPUT] | own[t.OUTPUT])


@jit()
def _wait_for_readers(
    session: Any, program: Any, table: int, begin: int, end: int, index: int
) -> int:
    """Wait until peers have read from this rank's arrays what rows of a table name."""
    guards = rows(table, end, t.GUARD_COLUMNS)
    for i in range(begin, end):
        number = _number_of(session, program, index, guards[i, t.G_ROUND])
        came = wait_done(session, guards[i, t.G_PEER], number)
        if came != CAME:
            return came
    return CAME


@jit()
def _may_write(session: Any, program: Any, row: Any, number: int, index: int) -> int:
    """Wait for all that a step's writes need: senders, a free next slot, past readers."""
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    senders = words(program[t.SENDER_TABLE], row[t.SENDER_END])
    for i in range(row[t.SENDER_BEGIN], row[t.SENDER_END]):
        came = wait(session, windows[senders[i]] + layout.STAGED, number + 1)
        if came != CAME:
            return came
    if row[t.GUARD_BEGIN] < row[t.GUARD_END] and _reads_its_arrays(program):
        begin, end = row[t.GUARD_BEGIN], row[t.GUARD_END]
        came = _wait_for_readers(session, program, program[t.GUARD_TABLE], begin, end, index)
        if came != CAME:
            return came
    return _free_slot(session, number + program[t.LANES]) if row[t.FUSES] != 0 else CAME


@jit()
def _receive(session: Any, program: Any, step: int) -> int:
    """Take what peers staged for this rank in a step, and tell them."""
    rounds = program[t.ROUNDS]
    round_number, index = _round_and_slice(step, rounds, program[t.LANES])
    row = rows(program[t.ROUND_TABLE], rounds, t.ROUND_COLUMNS)[round_number]
    number = session[t.STEP] + step
    came = _may_write(session, program, row, number, index)
    if came != CAME:
        return came
    if row[t.WRITE_BEGIN] < row[t.WRITE_END]:
        write(session, program, row, number, index)
    if index == 0:
        _advance_clock(session, program, round_number, row, number)
    begin, end = row[t.SENDER_BEGIN], row[t.SENDER_END]
    if begin < end:
        store_release(session[t.WINDOW] + layout.DONE, number + 1)
        ring_some(session, words(program[t.SENDER_TABLE], end), begin, end)
    return CAME


@jit()
def _finish(session: Any, program: Any) -> int:
    """Give the caller's arrays back: nobody reads them any more, and all stores are seen."""
    if program[t.PAST_CACHES] != 0:
        fence()
    if not _reads_its_arrays(program):
        return CAME
    last, end = program[t.SLICES] - 1, program[t.FINALS]
    return _wait_for_readers(session, program, program[t.FINAL_TABLE], 0, end, last)


@jit()
def _event(session: Any, program: Any, event: int, steps: int) -> int:
    """Do one event: announce, stage ahead, compare, copy; then receive and stage in turn."""
    lanes = program[t.LANES]
    if event == 0:
        came = describe(session, program)
        if came == CAME:
            announce(session, program)
        return came
    if event <= lanes:
        return _stage(session, program, event - 1) if event <= steps else CAME
    if event == lanes + 1:
        return compare(session, program)
    if event == lanes + 2:
        copy_untouched(program)
        return CAME
    step = (event - lanes - 3) // 2
    if step == steps:
        return _finish(session, program)
    if (event - lanes - 3) % 2 == 0:
        return _receive(session, program, step)
    return _stage(session, program, step + lanes) if step + lanes < steps else CAME


@jit()
def _run_short(session: Any, program: Any) -> int:
    """Run a call whose data goes with the descriptors: publish once, wait for all, take it."""
    row = rows(program[t.ROUND_TABLE], 1, t.ROUND_COLUMNS)[0]
    number = session[t.STEP]  # names no slot here
    if session[t.CURSOR] == 0:
        came = describe(session, program)
        if came != CAME:
            return came
        fill_slot(session, program, row, number, 0)
        place = _clock_at(session, program, session[t.WINDOW], number)
        store_float(place, load_float(session[t.CLOCK]))
        announce(session, program)
        session[t.CURSOR] = 1
    came = compare(session, program)
    if came != CAME:
        return came
    copy_untouched(program)
    write(session, program, row, number, 0)
    _advance_clock(session, program, 0, row, number)
    session[t.CURSOR] = 0
    return CAME


@jit()
def run(session_at: int, program_at: int) -> int:
    """Run a bound operation on this rank, from where the last call left it.

    Parameters
    ----------
    session_at, program_at : addresses of the session's and the program's words.

    Returns
    -------
    int
        CAME when it is done; AGAIN, FAULTED or DIFFERS (the session's ODD_RANK says who).
    """
    session = words(session_at, t.SESSION_WORDS)
    program = words(program_at, t.PROGRAM_WORDS)
    if program[t.SHORT] != 0:
        return _run_short(session, program)
    steps = program[t.ROUNDS] * program[t.SLICES]
    for event in range(session[t.CURSOR], program[t.LANES] + 4 + 2 * steps):
        came = _event(session, program, event, steps)
        if came != CAME:
            session[t.CURSOR] = event
            return came
    session[t.CURSOR] = 0
    session[t.STEP] += steps
    return CAME
