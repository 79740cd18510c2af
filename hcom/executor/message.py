"""Point-to-point messages: a batch of sends and receives that all make progress together.

A send posts an envelope in its channel to the peer; the receive that matches it by tag, first
come first matched, takes the data: from the envelope's inline bytes when short, straight from
the sender's memory where the system allows it (process_vm_readv), else piece by piece through
two stream slots. A send is over when its receive is (HCCL's rendezvous). Items of a batch never
block each other, so their order in the list does not matter.
"""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.channel import channel_at, envelope_at, inline_at, stream_slot_at
from hcom.executor.tables import rows, words
from hcom.jit import jit
from hcom.transport import layout
from hcom.transport.atomics import (
    fence,
    load_acquire,
    load_int,
    memcpy,
    monotonic,
    process_vm_readv,
    sched_yield,
    store_int,
    store_release,
)
from hcom.transport.doorbell import (
    AGAIN,
    CAME,
    FAULTED,
    SLEEP_NANOSECONDS,
    TURN_NANOSECONDS,
    YIELDS,
    get_up,
    lie_down,
    ring,
)

# Bytes of one look into another process's memory: short enough to come back for signals.
READ_BYTES = 16 << 20


@jit(inline=True)
def _ring_peer(session: Any, peer: int) -> None:
    fence()
    ring(words(session[t.HEADERS], session[t.RANK_SIZE])[peer])


@jit()
def _post(session: Any, message: Any) -> bool:
    """Offer a message to its peer, if an envelope is free."""
    channel = channel_at(session, session[t.RANK], message[t.M_PEER])
    number = load_int(channel + layout.POSTED)
    envelope = envelope_at(channel, number)
    if load_acquire(envelope + layout.E_STATE) != layout.FREE:
        return False
    store_int(envelope + layout.E_TAG, message[t.M_TAG])
    store_int(envelope + layout.E_BYTES, message[t.M_BYTES])
    store_int(envelope + layout.E_TYPE, message[t.M_TYPE])
    store_int(envelope + layout.E_ADDRESS, message[t.M_ADDRESS])
    store_int(envelope + layout.E_ARRIVAL, message[t.M_TIME])
    store_int(envelope + layout.E_NUMBER, number)
    if message[t.M_BYTES] <= layout.INLINE_BYTES:
        memcpy(inline_at(channel, number), message[t.M_ADDRESS], message[t.M_BYTES])
    store_release(envelope + layout.E_STATE, layout.OFFERED)
    store_release(channel + layout.POSTED, number + 1)
    message[t.M_NUMBER] = number
    message[t.M_STATE] = t.MATCHED
    _ring_peer(session, message[t.M_PEER])
    return True


@jit()
def _follow(session: Any, message: Any) -> bool:
    """Look what became of an offered message: stream it when asked, end it when taken."""
    channel = channel_at(session, session[t.RANK], message[t.M_PEER])
    envelope = envelope_at(channel, message[t.M_NUMBER])
    state = load_acquire(envelope + layout.E_STATE)
    if state == layout.COMPLETE or state == layout.REFUSED:
        message[t.M_THEIR_BYTES] = load_int(envelope + layout.E_BYTES)
        message[t.M_THEIR_TYPE] = load_int(envelope + layout.E_TYPE)
        message[t.M_STATE] = t.OVER if state == layout.COMPLETE else t.UNEQUAL
        store_release(envelope + layout.E_STATE, layout.FREE)
        return True
    moved = message[t.M_MOVED]
    if state != layout.STREAMS or moved == message[t.M_BYTES]:
        return False
    filled = load_int(channel + layout.FILLED)
    if filled - load_acquire(channel + layout.DRAINED) >= layout.STREAM_SLOTS:
        return False
    nbytes = min(session[t.STREAM_BYTES], message[t.M_BYTES] - moved)
    memcpy(stream_slot_at(session, channel, filled), message[t.M_ADDRESS] + moved, nbytes)
    message[t.M_MOVED] = moved + nbytes
    store_release(channel + layout.FILLED, filled + 1)
    _ring_peer(session, message[t.M_PEER])
    return True


@jit()
def _find(session: Any, message: Any) -> int:
    """Find the number of the oldest offered envelope with this message's tag, or -1."""
    peer = message[t.M_PEER]
    channel = channel_at(session, peer, session[t.RANK])
    heads = words(session[t.HEADS], session[t.RANK_SIZE])
    posted = load_acquire(channel + layout.POSTED)
    while heads[peer] < posted:
        envelope = envelope_at(channel, heads[peer])
        ours = load_int(envelope + layout.E_NUMBER) == heads[peer]
        if ours and load_acquire(envelope + layout.E_STATE) == layout.OFFERED:
            break
        heads[peer] += 1
    for number in range(heads[peer], posted):
        envelope = envelope_at(channel, number)
        offered = load_acquire(envelope + layout.E_STATE) == layout.OFFERED
        if offered and load_int(envelope + layout.E_NUMBER) == number:
            if load_int(envelope + layout.E_TAG) == message[t.M_TAG]:
                return number
    return -1


@jit(inline=True)
def _end(session: Any, message: Any, envelope: int, state: int) -> None:
    message[t.M_STATE] = t.OVER if state == layout.COMPLETE else t.UNEQUAL
    store_release(envelope + layout.E_STATE, state)
    _ring_peer(session, message[t.M_PEER])


@jit()
def _match(session: Any, message: Any) -> bool:
    """Find this receive's envelope and take the data, or ask for it to be streamed."""
    number = _find(session, message)
    if number < 0:
        return False
    channel = channel_at(session, message[t.M_PEER], session[t.RANK])
    envelope = envelope_at(channel, number)
    message[t.M_NUMBER] = number
    message[t.M_TIME] = load_int(envelope + layout.E_ARRIVAL)
    nbytes, kind = load_int(envelope + layout.E_BYTES), load_int(envelope + layout.E_TYPE)
    if nbytes != message[t.M_BYTES] or kind != message[t.M_TYPE]:
        message[t.M_THEIR_BYTES], message[t.M_THEIR_TYPE] = nbytes, kind
        store_int(envelope + layout.E_BYTES, message[t.M_BYTES])
        store_int(envelope + layout.E_TYPE, message[t.M_TYPE])
        _end(session, message, envelope, layout.REFUSED)
    elif nbytes <= layout.INLINE_BYTES:
        memcpy(message[t.M_ADDRESS], inline_at(channel, number), nbytes)
        _end(session, message, envelope, layout.COMPLETE)
    else:
        message[t.M_STATE] = t.MATCHED
        store_release(envelope + layout.E_STATE, layout.TAKEN)
    return True


@jit()
def _read_across(session: Any, message: Any, envelope: int) -> bool:
    """Copy a part straight from the sender's memory; False where the system refuses it."""
    moved = message[t.M_MOVED]
    pid = words(session[t.PIDS], session[t.RANK_SIZE])[message[t.M_PEER]]
    source = load_int(envelope + layout.E_ADDRESS) + moved
    nbytes = min(READ_BYTES, message[t.M_BYTES] - moved)
    read = process_vm_readv(pid, message[t.M_ADDRESS] + moved, source, nbytes)
    if read <= 0:
        session[t.CROSS_MEMORY] = 0
        return False
    message[t.M_MOVED] = moved + read
    return True


@jit()
def _drain(session: Any, message: Any, channel: int) -> bool:
    """Take one piece from the stream slots."""
    drained = load_int(channel + layout.DRAINED)
    if load_acquire(channel + layout.FILLED) == drained:
        return False
    moved = message[t.M_MOVED]
    nbytes = min(session[t.STREAM_BYTES], message[t.M_BYTES] - moved)
    memcpy(message[t.M_ADDRESS] + moved, stream_slot_at(session, channel, drained), nbytes)
    message[t.M_MOVED] = moved + nbytes
    store_release(channel + layout.DRAINED, drained + 1)
    _ring_peer(session, message[t.M_PEER])
    return True


@jit()
def _take(session: Any, message: Any) -> bool:
    """Move on with a matched receive that is too long for its envelope."""
    peer = message[t.M_PEER]
    channel = channel_at(session, peer, session[t.RANK])
    envelope = envelope_at(channel, message[t.M_NUMBER])
    streaming = words(session[t.STREAMING], session[t.RANK_SIZE])
    if message[t.M_STATE] == t.MATCHED:
        if session[t.CROSS_MEMORY] != 0 and _read_across(session, message, envelope):
            if message[t.M_MOVED] == message[t.M_BYTES]:
                _end(session, message, envelope, layout.COMPLETE)
            return True
        if streaming[peer] != 0:
            return False
        streaming[peer] = 1
        message[t.M_MOVED] = 0
        message[t.M_STATE] = t.STREAMED
        store_release(envelope + layout.E_STATE, layout.STREAMS)
        _ring_peer(session, peer)
        return True
    if not _drain(session, message, channel):
        return False
    if message[t.M_MOVED] == message[t.M_BYTES]:
        streaming[peer] = 0
        _end(session, message, envelope, layout.COMPLETE)
    return True


@jit()
def try_once(session: Any, messages: Any) -> Any:
    """Try every message once: whether one got on, and how many are not over."""
    moved, left = False, 0
    for index in range(messages.shape[0]):
        message = messages[index]
        if message[t.M_STATE] >= t.OVER:
            continue
        left += 1
        if message[t.M_STATE] == t.NEW:
            if message[t.M_BEFORE] != 0 and load_int(message[t.M_BEFORE]) == t.NEW:
                continue
            if message[t.M_SENDS] != 0:
                moved = _post(session, message) or moved
            else:
                moved = _match(session, message) or moved
        elif message[t.M_SENDS] != 0:
            moved = _follow(session, message) or moved
        else:
            moved = _take(session, message) or moved
    return moved, left


@jit(inline=True)
def _count_turn(header: int) -> None:
    store_int(header + layout.TURNS, load_int(header + layout.TURNS) + 1)


@jit()
def _nap(session: Any, messages: Any) -> bool:
    """Sleep until rung, unless a message gets on first; whether one did."""
    header = session[t.HEADER]
    value = lie_down(header)
    moved, _ = try_once(session, messages)
    get_up(header, value, 0 if moved else SLEEP_NANOSECONDS)
    return bool(moved)


@jit()
def exchange(session_at: int, messages_at: int, count: int) -> int:
    """Complete a batch of messages.

    Parameters
    ----------
    session_at : address of the session's words.
    messages_at : address of int64[count, MESSAGE_COLUMNS].

    Returns
    -------
    int
        CAME when all are over (or UNEQUAL), AGAIN when nothing came for a while, or FAULTED.
    """
    session = words(session_at, t.SESSION_WORDS)
    messages = rows(messages_at, count, t.MESSAGE_COLUMNS)
    patience = session[t.SPIN_LIMIT] + YIELDS
    idle, turn_ends = 0, 0
    while True:
        moved, left = try_once(session, messages)
        if left == 0:
            return CAME
        if moved or idle < patience:
            if idle == patience:
                _count_turn(session[t.HEADER])
            if idle >= session[t.SPIN_LIMIT]:
                sched_yield()
            idle = 0 if moved else idle + 1
            turn_ends = 0
            continue
        if load_acquire(session[t.WINDOW] + layout.FAULT) != layout.NO_FAULT:
            return FAULTED
        if turn_ends == 0:
            turn_ends = monotonic() + TURN_NANOSECONDS
        elif monotonic() > turn_ends:
            return AGAIN
        if _nap(session, messages):
            _count_turn(session[t.HEADER])
            idle = 0
