"""Waiting for a member of the group, and waking those who may wait for this rank."""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.tables import words
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import fence, load_acquire
from hcom.transport.doorbell import AGAIN, CAME, FAULTED, ring, wait_for


@jit(inline=True)
def ring_some(session: Any, ranks: Any, begin: int, end: int) -> None:
    """Wake members that sleep."""
    headers = words(session[t.HEADERS], session[t.RANK_SIZE])
    fence()
    for i in range(begin, end):
        ring(headers[ranks[i]])


@jit(inline=True)
def wait(session: Any, word: int, target: int) -> int:
    """Wait until a word is at its target; CAME, AGAIN or FAULTED."""
    if session[t.POLLS] == 0:
        return wait_for(word, target, session[t.HEADER], session[t.WINDOW], session[t.SPIN_LIMIT])
    if load_acquire(word) >= target:
        return CAME
    return AGAIN if load_acquire(session[t.WINDOW] + layout.FAULT) == 0 else FAULTED


@jit(inline=True)
def wait_done(session: Any, member: int, number: int) -> int:
    """Wait until a member is past the reads of a step."""
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    return wait(session, windows[member] + layout.DONE, number + 1)
