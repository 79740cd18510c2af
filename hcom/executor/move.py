"""Moving the bytes of a step: into this rank's slot, and from slots and arrays to their place."""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.agree import descriptor_at
from hcom.executor.tables import rows, words
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import call_fold
from hcom.transport.stream import copy, copy_streamed

# Bytes that go to two places at a time: the second read finds them in the first-level cache.
TWIN_BYTES = 8192


@jit(inline=True)
def _piece(length: int, piece: int, index: int) -> int:
    """Bytes of slice `index` of a position of `length` bytes cut in pieces of `piece` bytes."""
    return max(0, min(piece, length - index * piece))


@jit(inline=True)
def _slot_at(session: Any, program: Any, window: int, number: int) -> int:
    """Give the address of the slot of a step in a member's window; of a short call's data."""
    if program[t.SHORT] != 0:
        return int(descriptor_at(window, session[t.SEQUENCE]) + layout.SHORT_DATA)
    return int(window + layout.SLOTS_AT + number % layout.SLOTS * session[t.SLOT_BYTES])


@jit()
def fill_slot(session: Any, program: Any, row: Any, number: int, index: int) -> None:
    """Copy what this rank sends in a step into the step's slot, but for what peers read directly.

    Parameters
    ----------
    row : of the round.
    number, index : of the step, and of its slice.
    """
    bases, own = words(program[t.BASES], 3), words(program[t.OWN_ARRAYS], 2)
    place = _slot_at(session, program, session[t.WINDOW], number)
    table = rows(program[t.STAGE_TABLE], row[t.STAGE_END], t.STAGE_COLUMNS)
    for i in range(row[t.STAGE_BEGIN], row[t.STAGE_END]):
        array = table[i, t.S_ARRAY]
        nbytes = _piece(table[i, t.S_LENGTH], table[i, t.S_PIECE], index)
        if nbytes > 0 and (array < 0 or own[array] == 0):
            start = table[i, t.S_OFFSET] + index * table[i, t.S_PIECE]
            copy(place + table[i, t.S_SLOT], bases[table[i, t.S_BUFFER]] + start, nbytes)


@jit(inline=True)
def _find_sources(
    session: Any, program: Any, operands: Any, begin: int, count: int, number: int, shift: int
) -> Any:
    """Look up the addresses of a write's operands."""
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    bases, sources = words(program[t.BASES], 3), words(program[t.SOURCES], count)
    arrays = rows(program[t.PEER_ARRAYS], session[t.RANK_SIZE], 2)
    for k in range(count):
        operand = operands[begin + k]
        peer, array = operand[t.O_PEER], operand[t.O_ARRAY]
        if peer < 0:
            sources[k] = bases[operand[t.O_BUFFER]] + operand[t.O_OFFSET] + shift
        elif array >= 0 and arrays[peer, array] != 0:
            sources[k] = arrays[peer, array] + operand[t.O_PLACE] + shift
        else:
            sources[k] = _slot_at(session, program, windows[peer], number) + operand[t.O_OFFSET]
    return sources


@jit(inline=True)
def _copy_to(target: int, twin: int, source: int, nbytes: int, streamed: int) -> None:
    """Copy to one place or two."""
    if twin != 0:
        for start in range(0, nbytes, TWIN_BYTES):
            size = min(TWIN_BYTES, nbytes - start)
            copy(twin + start, source + start, size)
            if streamed != 0:
                copy_streamed(target + start, source + start, size)
            else:
                copy(target + start, source + start, size)
    elif streamed != 0:
        copy_streamed(target, source, nbytes)
    else:
        copy(target, source, nbytes)


@jit()
def write(session: Any, program: Any, row: Any, number: int, index: int) -> None:
    """Fold or copy the operands of each position that this rank receives in a step.

    Parameters
    ----------
    row : of the round.
    number, index : of the step, and of its slice.
    """
    bases, own = words(program[t.BASES], 3), words(program[t.OWN_ARRAYS], 2)
    next_slot = _slot_at(session, program, session[t.WINDOW], number + program[t.LANES])
    table = rows(program[t.WRITE_TABLE], row[t.WRITE_END], t.WRITE_COLUMNS)
    operands = rows(
        program[t.OPERAND_TABLE], table[row[t.WRITE_END] - 1, t.W_END], t.OPERAND_COLUMNS
    )
    for i in range(row[t.WRITE_BEGIN], row[t.WRITE_END]):
        nbytes = _piece(table[i, t.W_LENGTH], table[i, t.W_PIECE], index)
        if nbytes == 0:
            continue
        shift = index * table[i, t.W_PIECE]
        begin, count = table[i, t.W_BEGIN], table[i, t.W_END] - table[i, t.W_BEGIN]
        sources = _find_sources(session, program, operands, begin, count, number, shift)
        streamed, twin, array = table[i, t.W_STREAMED], 0, table[i, t.W_ARRAY]
        if table[i, t.W_BUFFER] == t.NEXT_SLOT:
            target = next_slot + table[i, t.W_OFFSET]
        else:
            target = bases[table[i, t.W_BUFFER]] + table[i, t.W_OFFSET] + shift
        if array >= 0 and own[array] != 0:
            streamed = 0  # peers read it here next
        elif table[i, t.W_TWIN] >= 0:
            twin = next_slot + table[i, t.W_TWIN]
        if count == 1:
            _copy_to(target, twin, sources[0], nbytes, streamed)
        else:
            elements = nbytes // program[t.ITEM]
            call_fold(program[t.FOLD], target, twin, program[t.SOURCES], count, elements, streamed)


@jit()
def copy_untouched(program: Any) -> None:
    """Bring positions that no round writes from the input to the output."""
    bases = words(program[t.BASES], 3)
    table = rows(program[t.COPY_TABLE], program[t.COPIES], t.COPY_COLUMNS)
    for i in range(program[t.COPIES]):
        target = bases[table[i, t.C_TO]] + table[i, t.C_TO_OFFSET]
        source = bases[table[i, t.C_FROM]] + table[i, t.C_FROM_OFFSET]
        if target != source and program[t.PAST_CACHES] != 0:
            copy_streamed(target, source, table[i, t.C_LENGTH])
        elif target != source:
            copy(target, source, table[i, t.C_LENGTH])
