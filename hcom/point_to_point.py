"""Batches of sends and receives: their checks, their run, and what they leave on the clocks."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NoReturn

import numpy as np

from hcom.arguments import Array, check_array, check_rank, contiguous
from hcom.data_type import DATA_TYPES, data_type_of
from hcom.device import current
from hcom.errors import MismatchError
from hcom.executor import tables as t
from hcom.executor.message import exchange as run_exchange
from hcom.executor.session import Session
from hcom.statistics import Statistics
from hcom.topology import Topology
from hcom.transport.doorbell import AGAIN, CAME

Message = tuple[str, Array, int, int]  # "send" or "recv", the array, the peer, the tag
_KINDS = {"send": 1, "recv": 0}


def _checked(message: object, session: Session) -> Message:
    """Check one message's form and arguments."""
    if not isinstance(message, tuple | list) or len(message) not in (3, 4):
        raise TypeError(f"a message is (kind, array, peer, tag), not {message!r}")
    kind, x, peer, tag = message if len(message) == 4 else (*message, 0)
    if kind not in _KINDS:
        raise ValueError(f"a message's kind is 'send' or 'recv', not {kind!r}")
    check_array(x, "x" if kind == "send" else "out")
    peer = check_rank(peer, "dst" if kind == "send" else "src", len(session.ranks))
    if isinstance(tag, bool) or not isinstance(tag, int | np.integer):
        raise TypeError(f"tag must be an integer, not {type(tag).__name__}")
    if kind == "recv" and not x.flags.writeable:
        raise ValueError("out is read-only")
    return str(kind), x, peer, int(tag)


def _check_own(messages: Sequence[Message], rank: int) -> None:
    """Refuse messages to this rank itself that have no other end in the batch."""
    ends = Counter[int]()
    for kind, _, peer, tag in messages:
        if peer == rank:
            ends[tag] += 1 if kind == "send" else -1
    for tag, surplus in ends.items():
        if surplus:
            raise ValueError(
                f"rank {rank} has a {'send' if surplus > 0 else 'recv'} with itself (tag {tag}) "
                "whose other end is not in this call: put both in one batch_send_recv"
            )


def _table(messages: Sequence[Message], buffers: Sequence[Array]) -> np.ndarray:
    table = np.zeros((len(messages), t.MESSAGE_COLUMNS), np.int64)
    latest: dict[tuple[object, ...], int] = {}
    for row, ((kind, _, peer, tag), buffer) in enumerate(zip(messages, buffers, strict=True)):
        # Sends to one peer are offered in order; receives of one peer and tag match in order.
        key = (kind, peer) if kind == "send" else (kind, peer, tag)
        table[row, t.M_SENDS] = _KINDS[kind]
        table[row, t.M_PEER] = peer
        table[row, t.M_TAG] = tag
        table[row, t.M_BYTES] = buffer.nbytes
        table[row, t.M_TYPE] = data_type_of(buffer).number
        table[row, t.M_ADDRESS] = buffer.ctypes.data
        table[row, t.M_BEFORE] = latest.get(key, -1)
        latest[key] = row
    return table


def _arrivals(table: np.ndarray, session: Session, topology: Topology, start: float) -> None:
    """Set when each send arrives: all leave together; those on one port share it equally."""
    sends = np.flatnonzero((table[:, t.M_SENDS] == 1) & (table[:, t.M_PEER] != session.rank))
    links = {row: topology.link_of(session.rank, int(table[row, t.M_PEER])) for row in sends}
    ports = Counter(link.name for link in links.values() if link.kind == "port")
    times = table[:, t.M_TIME].view(np.float64)
    times[:] = start
    for row, link in links.items():
        beta = link.beta * max(1, ports[link.name])
        times[row] = start + link.alpha + float(table[row, t.M_BYTES]) * beta


def exchange(
    session: Session,
    name: str,
    topology: Topology,
    statistics: Statistics,
    messages: Sequence[Message],
) -> None:
    """Complete a batch of messages of a communicator; see `Communicator.batch_send_recv`."""
    checked = [_checked(message, session) for message in messages]
    _check_own(checked, session.rank)
    if not checked:
        return
    buffers = [
        contiguous(x) if kind == "send" or x.flags.c_contiguous else np.empty(x.shape, x.dtype)
        for kind, x, _, _ in checked
    ]
    table = _table(checked, buffers)
    device, stream = current(), f"comm:{name}"
    started, start = perf_counter(), device.issue(stream)
    _arrivals(table, session, topology, start)
    _run(session, checked, table)
    for (kind, x, _, _), buffer in zip(checked, buffers, strict=True):
        if kind == "recv" and buffer is not x:
            x[...] = buffer
    times = table[:, t.M_TIME].view(np.float64)
    end = max(start, float(times.max()))
    device.settle(stream, end)
    device.join(end)
    _record(session, name, checked, table, (started, perf_counter(), start, end))
    _count(statistics, name, checked, table, perf_counter() - started, end - start)


def _run(session: Session, messages: Sequence[Message], table: np.ndarray) -> None:
    session.refuse_if_broken()

    def resume() -> int:
        return run_exchange(session.address, table.ctypes.data, len(table))

    came = resume()
    if came == AGAIN:
        title = "batch_send_recv(" if len(messages) > 1 else ""
        title += ", ".join(_told(message, session) for message in messages[:4])
        title += ", ...)" if len(messages) > 4 else ")" * (len(messages) > 1)

        def needs() -> list[int]:
            open_rows = table[table[:, t.M_STATE] < t.OVER]
            peers = {int(peer) for peer in open_rows[:, t.M_PEER]}
            return sorted(session.ranks[peer] for peer in peers)

        def progress() -> int:
            return int(table[:, t.M_MOVED].sum() + table[:, t.M_STATE].sum())

        came = session.watched(title, resume, needs, progress)
    if came != CAME:
        session.raise_fault()
    for row, message in enumerate(messages):
        if table[row, t.M_STATE] == t.UNEQUAL:
            _raise_unequal(message, table[row], session)


def _told(message: Message, session: Session) -> str:
    kind, x, peer, tag = message
    way = "to" if kind == "send" else "from"
    return f"{kind} {way} rank {session.ranks[peer]} (tag {tag}, {x.size} x {x.dtype})"


def _raise_unequal(message: Message, row: np.ndarray, session: Session) -> NoReturn:
    kind = next(k for k in DATA_TYPES if k.number == row[t.M_THEIR_TYPE])
    theirs = f"{row[t.M_THEIR_BYTES] // kind.nbytes} x {kind.numpy}"
    verb = "receives" if message[0] == "send" else "sends"
    raise MismatchError(
        f"EI0005: {_told(message, session)}, {message[1].nbytes} bytes, but the other end {verb} "
        f"{theirs}, {row[t.M_THEIR_BYTES]} bytes; both ends need equal count and type"
    )


def _flow(name: str, src: int, dst: int, number: int) -> int:
    """Make a number that is equal at both ends of a message and no other one's."""
    text = f"{name}:{src}:{dst}:{number}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "little") | 1


def _record(
    session: Session,
    name: str,
    messages: Sequence[Message],
    table: np.ndarray,
    times: tuple[float, float, float, float],
) -> None:
    """Leave an event per message in the trace, with the number that joins its two ends."""
    started, ended, start, _ = times
    trace = current().trace
    arrivals = table[:, t.M_TIME].view(np.float64).tolist()
    for (kind, x, peer, _), number, end in zip(
        messages, table[:, t.M_NUMBER].tolist(), arrivals, strict=True
    ):
        ends = (session.rank, peer) if kind == "send" else (peer, session.rank)
        trace.record(
            f"comm:{name}",
            kind,
            started,
            ended,
            start,
            max(start, end),
            kind=kind,
            nbytes=x.nbytes,
            group=name,
            peer=session.ranks[peer],
            flow=_flow(name, *ends, number),
            dtype=data_type_of(x).name,
        )


def _count(
    statistics: Statistics,
    name: str,
    messages: Sequence[Message],
    table: Any,
    wall: float,
    device: float,
) -> None:
    """Count the call once, as the kind of its messages."""
    kinds = {kind for kind, *_ in messages}
    call = kinds.pop() if len(kinds) == 1 else "send_recv"
    sends = table[:, t.M_SENDS] == 1
    sent = int(table[sends, t.M_BYTES].sum())
    moved = max(sent, int(table[~sends, t.M_BYTES].sum()))
    statistics.of(name, call, "direct").add(moved, sent, wall, device)
