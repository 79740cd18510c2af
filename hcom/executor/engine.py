"""The communication thread: one kernel that moves on all asynchronous operations of a process.

Each group has a ring of commands. Collectives of a group run one after another, as on a stream;
messages in a row go on side by side. The kernel goes round the groups and never blocks on one.
What it does to a command it tells in the command's words; whoever waits looks there.
"""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.agree import DIFFERS
from hcom.executor.declare import declare_fault
from hcom.executor.message import try_once
from hcom.executor.run import run
from hcom.executor.tables import floats, rows, words
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import (
    add_int,
    fence,
    load_acquire,
    load_float,
    monotonic,
    sched_yield,
    store_float,
    store_release,
)
from hcom.transport.doorbell import AGAIN, CAME, SLEEP_NANOSECONDS, YIELDS, get_up, lie_down, ring

# Words of the engine
STOP, HEADER, GROUPS, GROUP_TABLE, ENGINE_WORDS = range(5)
# Columns of a group: its session, its ring of command addresses, and how far either end is.
G_SESSION, G_RING, G_HEAD, G_TAIL, GROUP_COLUMNS = range(5)
MOST_GROUPS = 1024
RING = 1024
# A sleep without commands, ns; a new command rings.
REST = 1_000_000_000

# Words of a command. C_ISSUE and C_END are float64: device clock at issue and at the end, s.
C_KIND, C_AT, C_COUNT, C_ISSUE, C_STATUS, C_END, C_WALL, C_SEQUENCE, COMMAND_WORDS = range(9)
COLLECTIVE, MESSAGES = range(2)
QUEUED, STARTED, DONE, FAILED = range(4)


@jit()
def _end(session: Any, command: Any, status: int, clock: float) -> None:
    """Tell whoever waits for a command that it is over."""
    base = command.ctypes.data
    store_float(base + 8 * C_END, clock)
    command[C_WALL] = monotonic()
    command[C_SEQUENCE] = session[t.SEQUENCE]
    store_release(base + 8 * C_STATUS, status)
    fence()
    ring(session[t.HEADER])


@jit()
def _collective(session: Any, session_at: int, command: Any) -> bool:
    """Run a collective as far as it goes; whether it got on."""
    base = command.ctypes.data
    if command[C_STATUS] == QUEUED:
        session[t.SEQUENCE] += 1
        issue = load_float(base + 8 * C_ISSUE)
        store_float(session[t.CLOCK], max(load_float(session[t.CLOCK]), issue))
        command[C_STATUS] = STARTED
    before = session[t.CURSOR]
    session[t.POLLS] = 1
    came = run(session_at, command[C_AT])
    session[t.POLLS] = 0
    if came == AGAIN:
        return bool(session[t.CURSOR] != before)
    if came == DIFFERS:
        declare_fault(session_at, layout.MISMATCH, session[t.ODD_RANK])
    _end(session, command, DONE if came == CAME else FAILED, load_float(session[t.CLOCK]))
    return True


@jit()
def _messages(session: Any, command: Any) -> bool:
    """Try a batch of messages; whether one got on."""
    count = command[C_COUNT]
    messages = rows(command[C_AT], count, t.MESSAGE_COLUMNS)
    command[C_STATUS] = STARTED
    moved, left = try_once(session, messages)
    faulted = load_acquire(session[t.WINDOW] + layout.FAULT) != layout.NO_FAULT
    if left > 0 and not faulted:
        return bool(moved)
    times = floats(command[C_AT], count * t.MESSAGE_COLUMNS)
    clock = load_float(command.ctypes.data + 8 * C_ISSUE)
    for row in range(count):
        clock = max(clock, times[row * t.MESSAGE_COLUMNS + t.M_TIME])
    store_float(session[t.CLOCK], max(load_float(session[t.CLOCK]), clock))
    _end(session, command, DONE if left == 0 else FAILED, clock)
    return True


@jit()
def _group(group: Any) -> Any:
    """Move on a group's commands: whether one got on, and whether any is left."""
    base = group.ctypes.data
    head, tail = group[G_HEAD], load_acquire(base + 8 * G_TAIL)
    session = words(group[G_SESSION], t.SESSION_WORDS)
    queue = words(group[G_RING], RING)
    moved, waits = False, False
    for number in range(head, tail):
        command = words(queue[number % RING], COMMAND_WORDS)
        if command[C_STATUS] >= DONE:
            continue
        if command[C_KIND] == COLLECTIVE:
            if waits:
                break
            moved = _collective(session, group[G_SESSION], command) or moved
        else:
            moved = _messages(session, command) or moved
        waits = waits or command[C_STATUS] < DONE
        if waits and command[C_KIND] == COLLECTIVE:
            break
    while head < tail and words(queue[head % RING], COMMAND_WORDS)[C_STATUS] >= DONE:
        head += 1
    store_release(base + 8 * G_HEAD, head)
    return moved, head < tail


@jit()
def _round(engine: Any) -> Any:
    """Go round all groups once: whether one got on, and whether any command is left."""
    count = load_acquire(engine.ctypes.data + 8 * GROUPS)
    groups = rows(engine[GROUP_TABLE], MOST_GROUPS, GROUP_COLUMNS)
    moved, left = False, False
    for number in range(count):
        if groups[number, G_HEAD] == load_acquire(groups[number].ctypes.data + 8 * G_TAIL):
            continue
        group_moved, group_left = _group(groups[number])
        moved, left = moved or group_moved, left or group_left
    if moved:  # this process does not stand still, although its other threads may wait
        add_int(engine[HEADER] + layout.TURNS, 1)
    return moved, left


@jit()
def serve(engine_at: int) -> int:
    """Move on asynchronous operations until told to stop; the body of the communication thread.

    Parameters
    ----------
    engine_at : address of the engine's words.

    Returns
    -------
    int
        Whether commands were left (0 or 1).
    """
    engine = words(engine_at, ENGINE_WORDS)
    header = engine[HEADER]
    idle = 0
    while True:
        moved, left = _round(engine)
        if load_acquire(engine_at + 8 * STOP) != 0:
            return 1 if left else 0
        if moved or (left and idle < YIELDS):
            idle = 0 if moved else idle + 1
            sched_yield()
            continue
        idle = 0
        value = lie_down(header)
        moved, left = _round(engine)
        rest = SLEEP_NANOSECONDS if left else REST
        stays_up = moved or load_acquire(engine_at + 8 * STOP) != 0
        get_up(header, value, 0 if stays_up else rest)


@jit()
def submit(engine_at: int, group: int, command_at: int) -> bool:
    """Put a command at the end of a group's ring and wake the thread; False if the ring is full."""
    engine = words(engine_at, ENGINE_WORDS)
    row = rows(engine[GROUP_TABLE], MOST_GROUPS, GROUP_COLUMNS)[group]
    tail = row[G_TAIL]
    if tail - load_acquire(row.ctypes.data + 8 * G_HEAD) >= RING:
        return False
    words(row[G_RING], RING)[tail % RING] = command_at
    store_release(row.ctypes.data + 8 * G_TAIL, tail + 1)
    fence()
    ring(engine[HEADER])
    return True


@jit()
def stop(engine_at: int) -> None:
    """Tell the thread to end."""
    store_release(engine_at + 8 * STOP, 1)
    fence()
    ring(words(engine_at, ENGINE_WORDS)[HEADER])
