"""The interpreter of bound schedules: one call runs a whole collective without Python.

A *step* is one round of one slice. In a step a rank stages what it sends in a slot of its window
and publishes the step's number; who reads waits for that number, folds or copies straight from
the slot, and publishes that it is done, which frees the slot. Step numbers go on through all
operations of a communicator and every rank counts the same, so no other message is needed.
With two lanes the slices of a pair alternate, so that a rank stages the next slice before it
waits for the current one.

`run` can be left at any wait and called again: a step waits before it writes.
"""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.tables import float_rows, floats, rows, words
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import (
    call_fold,
    fence,
    load_acquire,
    load_float,
    load_int,
    memcpy,
    store_float,
    store_int,
    store_release,
)
from hcom.transport.doorbell import AGAIN, CAME, FAULTED, ring, wait_for

# What a run came to, beside the doorbell's CAME (done), AGAIN and FAULTED.
DIFFERS = 3


@jit(inline=True)
def _piece(length: int, piece: int, index: int) -> int:
    """Bytes of slice `index` of a position of `length` bytes cut in pieces of `piece` bytes."""
    return max(0, min(piece, length - index * piece))


@jit(inline=True)
def _round_and_slice(step: int, rounds: int, lanes: int) -> Any:
    """Which round of which slice a step is: the slices of a pair alternate."""
    pair, inside = step // (rounds * lanes), step % (rounds * lanes)
    return inside // lanes, pair * lanes + inside % lanes


@jit(inline=True)
def _ring_some(session: Any, ranks: Any, begin: int, end: int) -> None:
    headers = words(session[t.HEADERS], session[t.RANK_SIZE])
    fence()
    for i in range(begin, end):
        ring(headers[ranks[i]])


@jit(inline=True)
def _wait(session: Any, word: int, target: int) -> int:
    if session[t.POLLS] == 0:
        return wait_for(word, target, session[t.HEADER], session[t.WINDOW], session[t.SPIN_LIMIT])
    if load_acquire(word) >= target:
        return CAME
    return AGAIN if load_acquire(session[t.WINDOW] + layout.FAULT) == 0 else FAULTED


@jit()
def _announce(session: Any, program: Any) -> int:
    """Publish what this rank is about to run, for its peers to compare."""
    if load_acquire(session[t.WINDOW] + layout.FAULT) != layout.NO_FAULT:
        return FAULTED
    sequence = session[t.SEQUENCE]
    ring_place = sequence % layout.DESCRIPTORS_KEPT * layout.DESCRIPTOR_BYTES
    place = session[t.WINDOW] + layout.DESCRIPTORS + ring_place
    store_int(place + layout.DIGEST, program[t.DIGEST])
    store_int(place + layout.TEXT_BYTES, program[t.TEXT_SIZE])
    memcpy(place + layout.TEXT, program[t.TEXT_AT], program[t.TEXT_SIZE])
    store_release(place + layout.SEQUENCE, sequence)
    _ring_some(session, words(program[t.PEER_TABLE], program[t.PEERS]), 0, program[t.PEERS])
    return CAME


@jit()
def _compare(session: Any, program: Any) -> int:
    """Wait for the descriptors of all whom this rank exchanges data with, and compare them."""
    sequence = session[t.SEQUENCE]
    ring_place = sequence % layout.DESCRIPTORS_KEPT * layout.DESCRIPTOR_BYTES
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    peers = words(program[t.PEER_TABLE], program[t.PEERS])
    for i in range(program[t.PEERS]):
        place = windows[peers[i]] + layout.DESCRIPTORS + ring_place
        came = _wait(session, place + layout.SEQUENCE, sequence)
        if came != CAME:
            return came
        differs = load_int(place + layout.DIGEST) != program[t.DIGEST]
        if differs or load_acquire(place + layout.SEQUENCE) != sequence:
            session[t.ODD_RANK] = peers[i]
            return DIFFERS
    return CAME


@jit()
def _free_slot(session: Any, slot: int) -> int:
    """Wait until every reader of a slot's last use is past it."""
    size = session[t.RANK_SIZE]
    windows = words(session[t.WINDOWS], size)
    free_at = rows(session[t.READERS], layout.SLOTS, size)[slot]
    for peer in range(size):
        if free_at[peer] != 0:
            came = _wait(session, windows[peer] + layout.DONE, free_at[peer])
            if came != CAME:
                return came
            free_at[peer] = 0
    return CAME


@jit()
def _stage(session: Any, program: Any, step: int) -> int:
    """Copy what this rank sends in a step into a free slot and publish the step."""
    rounds = program[t.ROUNDS]
    round_number, index = _round_and_slice(step, rounds, program[t.LANES])
    row = rows(program[t.ROUND_TABLE], rounds, t.ROUND_COLUMNS)[round_number]
    if row[t.STAGE_BEGIN] == row[t.STAGE_END]:
        return CAME
    number = session[t.STEP] + step
    slot = number % layout.SLOTS
    came = _free_slot(session, slot)
    if came != CAME:
        return came
    bases = words(program[t.BASES], 3)
    place = session[t.WINDOW] + layout.SLOTS_AT + slot * session[t.SLOT_BYTES]
    table = rows(program[t.STAGE_TABLE], row[t.STAGE_END], t.STAGE_COLUMNS)
    for i in range(row[t.STAGE_BEGIN], row[t.STAGE_END]):
        nbytes = _piece(table[i, t.S_LENGTH], table[i, t.S_PIECE], index)
        if nbytes > 0:
            start = table[i, t.S_OFFSET] + index * table[i, t.S_PIECE]
            memcpy(place + table[i, t.S_SLOT], bases[table[i, t.S_BUFFER]] + start, nbytes)
    if index == 0:
        clocks = session[t.WINDOW] + layout.CLOCKS
        store_float(clocks + number % layout.CLOCKS_KEPT * 8, load_float(session[t.CLOCK]))
    store_release(session[t.WINDOW] + layout.STAGED, number + 1)
    free_at = rows(session[t.READERS], layout.SLOTS, session[t.RANK_SIZE])[slot]
    readers = words(program[t.READER_TABLE], row[t.READER_END])
    for i in range(row[t.READER_BEGIN], row[t.READER_END]):
        free_at[readers[i]] = number + 1
    _ring_some(session, readers, row[t.READER_BEGIN], row[t.READER_END])
    return CAME


@jit()
def _write(session: Any, program: Any, row: Any, slot: int, index: int) -> None:
    """Fold or copy the operands of each position that this rank receives in a step."""
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    bases = words(program[t.BASES], 3)
    place = layout.SLOTS_AT + slot * session[t.SLOT_BYTES]
    table = rows(program[t.WRITE_TABLE], row[t.WRITE_END], t.WRITE_COLUMNS)
    operands = rows(
        program[t.OPERAND_TABLE], table[row[t.WRITE_END] - 1, t.W_END], t.OPERAND_COLUMNS
    )
    for i in range(row[t.WRITE_BEGIN], row[t.WRITE_END]):
        nbytes = _piece(table[i, t.W_LENGTH], table[i, t.W_PIECE], index)
        if nbytes == 0:
            continue
        shift = index * table[i, t.W_PIECE]
        target = bases[table[i, t.W_BUFFER]] + table[i, t.W_OFFSET] + shift
        begin, count = table[i, t.W_BEGIN], table[i, t.W_END] - table[i, t.W_BEGIN]
        sources = words(program[t.SOURCES], count)
        for k in range(count):
            operand = operands[begin + k]
            if operand[t.O_PEER] >= 0:
                sources[k] = windows[operand[t.O_PEER]] + place + operand[t.O_OFFSET]
            else:
                sources[k] = bases[operand[t.O_BUFFER]] + operand[t.O_OFFSET] + shift
        if count == 1:
            memcpy(target, sources[0], nbytes)
        else:
            elements = nbytes // program[t.ITEM]
            call_fold(program[t.FOLD], target, program[t.SOURCES], count, elements)


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
    place = layout.CLOCKS + number % layout.CLOCKS_KEPT * 8
    start = load_float(session[t.CLOCK])
    come = start
    for i in range(row[t.SENDER_BEGIN], end):
        come = max(come, load_float(windows[senders[i]] + place) + arrival[i])
    store_float(session[t.CLOCK], max(come + cost[1], start + cost[0]))


@jit()
def _receive(session: Any, program: Any, step: int) -> int:
    """Take what peers staged for this rank in a step, and tell them."""
    rounds = program[t.ROUNDS]
    round_number, index = _round_and_slice(step, rounds, program[t.LANES])
    row = rows(program[t.ROUND_TABLE], rounds, t.ROUND_COLUMNS)[round_number]
    number = session[t.STEP] + step
    begin, end = row[t.SENDER_BEGIN], row[t.SENDER_END]
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    senders = words(program[t.SENDER_TABLE], end)
    for i in range(begin, end):
        came = _wait(session, windows[senders[i]] + layout.STAGED, number + 1)
        if came != CAME:
            return came
    if row[t.WRITE_BEGIN] < row[t.WRITE_END]:
        _write(session, program, row, number % layout.SLOTS, index)
    if index == 0:
        _advance_clock(session, program, round_number, row, number)
    if begin < end:
        store_release(session[t.WINDOW] + layout.DONE, number + 1)
        _ring_some(session, senders, begin, end)
    return CAME


@jit()
def _copy_untouched(program: Any) -> None:
    """Bring positions that no round writes from the input to the output."""
    bases = words(program[t.BASES], 3)
    table = rows(program[t.COPY_TABLE], program[t.COPIES], t.COPY_COLUMNS)
    for i in range(program[t.COPIES]):
        target = bases[table[i, t.C_TO]] + table[i, t.C_TO_OFFSET]
        source = bases[table[i, t.C_FROM]] + table[i, t.C_FROM_OFFSET]
        if target != source:
            memcpy(target, source, table[i, t.C_LENGTH])


@jit()
def _event(session: Any, program: Any, event: int, steps: int) -> int:
    """Do one event: announce, stage ahead, compare, copy; then receive and stage in turn."""
    lanes = program[t.LANES]
    if event == 0:
        return _announce(session, program)
    if event <= lanes:
        return _stage(session, program, event - 1) if event <= steps else CAME
    if event == lanes + 1:
        return _compare(session, program)
    if event == lanes + 2:
        _copy_untouched(program)
        return CAME
    step = (event - lanes - 3) // 2
    if (event - lanes - 3) % 2 == 0:
        return _receive(session, program, step)
    return _stage(session, program, step + lanes) if step + lanes < steps else CAME


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
    steps = program[t.ROUNDS] * program[t.SLICES]
    for event in range(session[t.CURSOR], program[t.LANES] + 3 + 2 * steps):
        came = _event(session, program, event, steps)
        if came != CAME:
            session[t.CURSOR] = event
            return came
    session[t.CURSOR] = 0
    session[t.STEP] += steps
    return CAME
