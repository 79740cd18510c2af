"""A waiter and a waker in every order of their steps, started by test_doorbell.py.

    python interleaved.py

The waiter's primitive operations are replaced by ones that count, and at two chosen counts do the
waker's two steps: store the word, ring. Prints a line for every order in which the waiter slept
although it had been rung for, and at the end how many orders there were. The counters' addresses
are compiled in: NUMBA_CACHE_DIR must be a fresh folder.
"""

import importlib.util
import sys

from hcom.jit import jit
from hcom.transport import atomics, doorbell, layout
from hcom.transport.arena import Arena
from hcom.transport.layout import PAGE

SHORT = 100_000_000  # ns: a sleep that nobody ends

arena = Arena.create(16 * PAGE)
HEADER, WINDOW, WORD = (arena.address + PAGE * number for number in range(3))
STEP, STORE_AT, RING_AT, SLEPT, SLEPT_AT = (arena.address + 3 * PAGE + 8 * n for n in range(5))

add_int, load_int32, load_acquire = atomics.add_int, atomics.load_int32, atomics.load_acquire
futex_wait = atomics.futex_wait


# The waker uses a doorbell module of its own, with the operations themselves.
specification = importlib.util.spec_from_file_location("wakers_doorbell", doorbell.__file__)
wakers = importlib.util.module_from_spec(specification)
specification.loader.exec_module(wakers)
ring = wakers.ring


@jit()
def step():
    """Count a step of the waiter; before it, do those of the waker whose turn has come."""
    number = add_int(STEP, 1)
    if number == atomics.load_int(STORE_AT):
        atomics.store_release(WORD, 1)
    if number == atomics.load_int(RING_AT):
        atomics.fence()
        ring(HEADER)
    return number


@jit()
def stepping_add_int(address, value):
    step()
    return add_int(address, value)


@jit()
def stepping_load_int32(address):
    step()
    return load_int32(address)


@jit()
def stepping_load_acquire(address):
    step()
    return load_acquire(address)


@jit()
def stepping_futex_wait(address, expected, nanoseconds):
    number = step()
    before = atomics.monotonic()
    futex_wait(address, expected, SHORT)
    if atomics.monotonic() - before > SHORT // 2:
        if add_int(SLEPT, 1) == 0:
            atomics.store_int(SLEPT_AT, number)


doorbell.add_int, doorbell.load_int32 = stepping_add_int, stepping_load_int32
doorbell.load_acquire, doorbell.futex_wait = stepping_load_acquire, stepping_futex_wait
doorbell.YIELDS = 0


def number_at(address):
    start = address - arena.address
    return int.from_bytes(arena.memory[start : start + 8], "little", signed=True)


def play(store_at, ring_at):
    """Wait once with the waker's steps at these counts; when the waiter slept, or -1, and how."""
    for address in (HEADER + layout.DOORBELL, HEADER + layout.SLEEPERS, WORD):
        start = address - arena.address
        arena.memory[start : start + 8] = bytes(8)
    for address, value in ((STEP, 0), (STORE_AT, store_at), (RING_AT, ring_at), (SLEPT, 0)):
        start = address - arena.address
        arena.memory[start : start + 8] = value.to_bytes(8, "little", signed=True)
    came = doorbell.wait_for(WORD, 1, HEADER, WINDOW, 0)
    return (number_at(SLEPT_AT) if number_at(SLEPT) else -1), came


def main():
    asleep, came = play(-1, -1)
    assert (came, asleep > 0) == (doorbell.AGAIN, True)
    # After its sleep has begun, a waiter is woken: hammer.py tries that.
    orders = [(store, ring) for ring in range(asleep + 1) for store in range(ring + 1)]
    for order in orders:
        slept, came = play(*order)
        if slept >= 0 or came != doorbell.CAME:
            sys.stdout.write(f"store, ring before steps {order}: slept, {came=}\n")
    sys.stdout.write(f"{len(orders)} orders\n")


if __name__ == "__main__":
    main()
