"""Waiting between processes without a lock: look again, give the core away, then sleep.

Each process has one doorbell, a futex word. Who makes something true that a peer may wait for
stores it and rings; who waits announces itself as a sleeper, looks once more, and sleeps on the
doorbell's value. The fence on either side makes one of the two see the other (an eventcount).
"""

import os

from hcom.jit import jit
from hcom.transport.atomics import (
    add_int,
    add_int32,
    fence,
    futex_wait,
    futex_wake,
    load_acquire,
    load_int,
    load_int32,
    monotonic,
    sched_yield,
    store_int,
)
from hcom.transport.layout import DOORBELL, FAULT, SLEEPERS, TURNS

# What a wait came to.
CAME, AGAIN, FAULTED = 0, 1, 2

# Looks before the core is given away, and before sleeping: about 10 us, and a few switches.
SPINS = 2000
YIELDS = 40
# A sleep is short so that a ring lost with a killed process costs little; a ring ends it at once.
SLEEP_NANOSECONDS = 20_000_000
# How long a kernel stays away from Python, where signals, deadlines and dead peers are seen.
TURN_NANOSECONDS = 100_000_000


def spins(ranks_on_host: int) -> int:
    """How often a waiter looks before it yields: not at all when ranks exceed cores."""
    return SPINS if ranks_on_host <= len(os.sched_getaffinity(0)) else 0


@jit(inline=True)
def ring(header: int) -> None:
    """Wake the process with this header, if it sleeps. Call `fence` once before."""
    if load_acquire(header + SLEEPERS) != 0:
        add_int32(header + DOORBELL, 1)
        futex_wake(header + DOORBELL)


@jit(inline=True)
def lie_down(header: int) -> int:
    """Become a sleeper; look once more after this, then `get_up` with what it returns."""
    add_int(header + SLEEPERS, 1)
    fence()
    return int(load_int32(header + DOORBELL))


@jit(inline=True)
def get_up(header: int, value: int, nanoseconds: int) -> None:
    """Sleep until rung or so long (0: not at all), and be no sleeper any more."""
    if nanoseconds > 0:
        futex_wait(header + DOORBELL, value, nanoseconds)
    add_int(header + SLEEPERS, -1)


@jit(inline=True)
def nap(header: int, word: int, target: int) -> None:
    """Sleep until rung, unless the word is at its target by now."""
    value = lie_down(header)
    get_up(header, value, SLEEP_NANOSECONDS if load_acquire(word) < target else 0)


@jit()
def _wait_long(word: int, target: int, header: int, window: int) -> int:
    for _ in range(YIELDS):
        sched_yield()
        if load_acquire(word) >= target:
            return CAME
    turn_ends = monotonic() + TURN_NANOSECONDS
    while load_acquire(word) < target:
        if load_acquire(window + FAULT) != 0:
            return FAULTED
        if monotonic() > turn_ends:
            return AGAIN
        nap(header, word, target)
    return CAME


@jit(inline=True)
def wait_for(word: int, target: int, header: int, window: int, spin_limit: int) -> int:
    """Wait until the word at an address is at least `target`.

    Parameters
    ----------
    header, window : addresses of this process's header and of its window of the communicator,
        whose fault word ends the wait.
    spin_limit : looks before the core is given away.

    Returns
    -------
    int
        CAME, AGAIN (nothing came in TURN_NANOSECONDS: return to Python and call again) or FAULTED.
    """
    for _ in range(spin_limit + 1):
        if load_acquire(word) >= target:
            return CAME
    came = _wait_long(word, target, header, window)
    if came == CAME:
        store_int(header + TURNS, load_int(header + TURNS) + 1)
    return came
