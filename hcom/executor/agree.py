"""Before data moves: ranks publish what they are about to run, and compare it."""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.tables import rows, words
from hcom.executor.wait import ring_some, wait
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import (
    load_acquire,
    load_int,
    memcpy,
    store_int,
    store_release,
)
from hcom.transport.doorbell import CAME, FAULTED

# What a comparison comes to, beside the results of a wait.
DIFFERS = 3


@jit(inline=True)
def descriptor_at(window: int, sequence: int) -> int:
    """Give the address of a member's description of its operation of this number."""
    kept = sequence % layout.DESCRIPTORS_KEPT
    return window + layout.DESCRIPTORS + kept * layout.DESCRIPTOR_BYTES


@jit(inline=True)
def _place_in_arena(session: Any, address: int) -> int:
    """Give an array's offset in this process's arena; 0 where it does not stand there."""
    offset = address - session[t.HEADER]
    return offset if 0 < offset < session[t.ARENA_BYTES] else 0


@jit(inline=True)
def _publish_arrays(session: Any, program: Any, place: int) -> None:
    """Tell peers where they can read the caller's arrays themselves."""
    bases, own = words(program[t.BASES], 2), words(program[t.OWN_ARRAYS], 2)
    for array in range(2):
        offset = _place_in_arena(session, bases[array])
        own[array] = offset != 0
        store_int(place + layout.INPUT_AT + 8 * array, offset)


@jit()
def describe(session: Any, program: Any) -> int:
    """Write down what this rank is about to run; `announce` makes it known. CAME or FAULTED."""
    if load_acquire(session[t.WINDOW] + layout.FAULT) != layout.NO_FAULT:
        return FAULTED
    place = descriptor_at(session[t.WINDOW], session[t.SEQUENCE])
    if load_int(place + layout.DIGEST) != program[t.DIGEST]:
        store_int(place + layout.DIGEST, program[t.DIGEST])
        store_int(place + layout.TEXT_BYTES, program[t.TEXT_SIZE])
        memcpy(place + layout.TEXT, program[t.TEXT_AT], program[t.TEXT_SIZE])
    if program[t.DIRECT] != 0:
        _publish_arrays(session, program, place)
    return CAME


@jit(inline=True)
def announce(session: Any, program: Any) -> None:
    """Publish what `describe` has written, for this rank's peers to compare."""
    place = descriptor_at(session[t.WINDOW], session[t.SEQUENCE])
    store_release(place + layout.SEQUENCE, session[t.SEQUENCE])
    ring_some(session, words(program[t.PEER_TABLE], program[t.PEERS]), 0, program[t.PEERS])


@jit()
def _let_others_catch_up(session: Any) -> int:
    """Wait until no member of the group can still read what the next description overwrites.

    Who exchanges data with all has seen all announce this operation. Others might go on alone.
    """
    behind = session[t.SEQUENCE] - layout.DESCRIPTORS_KEPT + 2
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    if behind > 0:
        for member in range(session[t.RANK_SIZE]):
            came = wait(session, descriptor_at(windows[member], behind), behind)
            if came != CAME:
                return came
    return CAME


@jit()
def compare(session: Any, program: Any) -> int:
    """Wait for the descriptors of all whom this rank exchanges data with, and compare them."""
    sequence, size = session[t.SEQUENCE], session[t.RANK_SIZE]
    windows, headers = words(session[t.WINDOWS], size), words(session[t.HEADERS], size)
    peers = words(program[t.PEER_TABLE], program[t.PEERS])
    arrays = rows(program[t.PEER_ARRAYS], size, 2)
    for i in range(program[t.PEERS]):
        peer = peers[i]
        place = descriptor_at(windows[peer], sequence)
        came = wait(session, place + layout.SEQUENCE, sequence)
        if came != CAME:
            return came
        differs = load_int(place + layout.DIGEST) != program[t.DIGEST]
        if program[t.DIRECT] != 0:
            for array in range(2):
                offset = load_int(place + layout.INPUT_AT + 8 * array)
                arrays[peer, array] = headers[peer] + offset if offset != 0 else 0
        if differs or load_acquire(place + layout.SEQUENCE) != sequence:
            session[t.ODD_RANK] = peer
            return DIFFERS
    return CAME if program[t.PEERS] == size - 1 else _let_others_catch_up(session)
