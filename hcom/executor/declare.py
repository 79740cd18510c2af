"""Declaring a fault to a whole group: the one way for the caller's and the communication thread."""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.tables import words
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import fence, load_acquire, store_int, store_release
from hcom.transport.doorbell import ring


@jit()
def declare_fault(session_at: int, kind: int, odd: int) -> None:
    """Set the fault words of every member that has none, and wake all.

    Parameters
    ----------
    session_at : address of the session's words; its rank is the finder.
    kind : one of the kinds of fault of `hcom.transport.layout`.
    odd : the member that the fault is about.
    """
    session: Any = words(session_at, t.SESSION_WORDS)
    size = session[t.RANK_SIZE]
    windows, headers = words(session[t.WINDOWS], size), words(session[t.HEADERS], size)
    for member in range(size):
        fault = windows[member] + layout.FAULT
        if load_acquire(fault) == layout.NO_FAULT:
            store_int(fault + 8, session[t.SEQUENCE])
            store_int(fault + 16, odd)
            store_int(fault + 24, session[t.RANK])
            store_release(fault, kind)  # last: it is the sign
    fence()
    for member in range(size):
        ring(headers[member])
