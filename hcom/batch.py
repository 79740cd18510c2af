"""A batch of sends and receives: its checks, its run, and what it leaves on the clocks."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import NoReturn

import numpy as np

from hcom.arguments import Array, check_array, check_rank, contiguous
from hcom.data_type import DATA_TYPES, data_type_of
from hcom.device import current
from hcom.errors import MismatchError
from hcom.executor import tables as t
from hcom.executor.message import exchange
from hcom.executor.session import Session
from hcom.statistics import Statistics
from hcom.topology import Topology
from hcom.transport.doorbell import AGAIN, CAME

Message = tuple[str, Array, int, int]  # "send" or "recv", the array, the peer, the tag
# The last message of each order, by its key: the address of its state, and its table.
Latest = dict[tuple[object, ...], tuple[int, np.ndarray]]
_KINDS = {"send": 1, "recv": 0}


def check_message(message: object, session: Session) -> Message:
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
    if not -(2**63) <= tag < 2**63:
        raise ValueError(f"tag must fit in 64 bits, not {tag}")
    if kind == "recv" and not x.flags.writeable:
        raise ValueError("out is read-only")
    return str(kind), x, peer, int(tag)


def check_own(messages: Sequence[Message], rank: int) -> None:
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


class Batch:
    """Checked messages that make progress together: their table, buffers and times.

    Parameters
    ----------
    name : of the communicator.
    latest : the communicator's last message of each order; what comes after one waits until that
        one is matched. The batch's own are entered.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        messages: list[Message],
        latest: Latest,
    ) -> None:
        self._name, self._session, self._messages = name, session, messages
        self._stream = f"comm:{name}"
        self._buffers = [
            contiguous(x) if kind == "send" or x.flags.c_contiguous else np.empty(x.shape, x.dtype)
            for kind, x, _, _ in messages
        ]
        self._table = np.zeros((len(messages), t.MESSAGE_COLUMNS), np.int64)
        self._latest = latest
        self._kept = [self._fill(row, message) for row, message in enumerate(messages)]
        self.address = int(self._table.ctypes.data)
        self.start = 0.0

    def _fill(self, number: int, message: Message) -> object:
        """Fill a row; returns what must live as long as this batch."""
        kind, _, peer, tag = message
        buffer, row = self._buffers[number], self._table[number]
        # Sends to one peer are offered in order; receives of one peer and tag match in order.
        key = (kind, peer) if kind == "send" else (kind, peer, tag)
        before = self._latest.get(key)
        row[t.M_SENDS], row[t.M_PEER], row[t.M_TAG] = _KINDS[kind], peer, tag
        row[t.M_BYTES], row[t.M_TYPE] = buffer.nbytes, data_type_of(buffer).number
        row[t.M_ADDRESS] = buffer.ctypes.data
        row[t.M_BEFORE] = 0 if before is None else before[0]
        self._latest[key] = (int(row[t.M_STATE :].ctypes.data), self._table)
        return before

    @property
    def title(self) -> str:
        """The batch in words."""
        told = ", ".join(_told(message, self._session) for message in self._messages[:4])
        more = ", ..." if len(self._messages) > 4 else ""
        return told if len(self._messages) == 1 else f"batch_send_recv({told}{more})"

    def needs(self) -> list[int]:
        """Tell which ranks of the world have not done their part."""
        rows = self._table[self._table[:, t.M_STATE] < t.OVER]
        return sorted({self._session.ranks[peer] for peer in rows[:, t.M_PEER].tolist()})

    def depart(self, topology: Topology, start: float) -> None:
        """Set when each send arrives: all leave at `start`; those on one port share it equally."""
        rank, table = self._session.rank, self._table
        self.start, self._started = start, perf_counter()
        sends = np.flatnonzero((table[:, t.M_SENDS] == 1) & (table[:, t.M_PEER] != rank))
        links = {row: topology.link_of(rank, int(table[row, t.M_PEER])) for row in sends}
        ports = Counter(link.name for link in links.values() if link.kind == "port")
        times = table[:, t.M_TIME].view(np.float64)
        times[:] = start
        for row, link in links.items():
            beta = link.beta * max(1, ports[link.name])
            times[row] = start + link.alpha + float(table[row, t.M_BYTES]) * beta

    def run(self) -> None:
        """Complete the batch on this thread."""
        session, table = self._session, self._table

        def resume() -> int:
            return exchange(session.address, self.address, len(table))

        def progress() -> int:
            return int(table[:, t.M_MOVED].sum() + table[:, t.M_STATE].sum())

        came = resume()
        if came == AGAIN:
            came = session.watched(self.title, resume, self.needs, progress)
        if came != CAME:
            session.raise_fault()

    def arrive(self, ended: float, statistics: Statistics) -> None:
        """Deliver what came; move the clocks, trace and count.

        Raises
        ------
        MismatchError : a message has another count or type at its other end.
        """
        for row, message in enumerate(self._messages):
            if self._table[row, t.M_STATE] == t.UNEQUAL:
                _raise_unequal(message, self._table[row], self._session)
        for (kind, x, _, _), buffer in zip(self._messages, self._buffers, strict=True):
            if kind == "recv" and buffer is not x:
                x[...] = buffer
        times = self._table[:, t.M_TIME].view(np.float64)
        end = max(self.start, float(times.max(initial=0.0)))
        device = current()
        device.settle(self._stream, end)
        device.join(end)
        self._trace(ended)
        self._count(statistics, ended - self._started, end - self.start)
        self._kept.clear()
        for key in [key for key, (_, table) in self._latest.items() if table is self._table]:
            del self._latest[key]

    def _trace(self, ended: float) -> None:
        """Leave an event per message, with the number that joins its two ends."""
        trace, session = current().trace, self._session
        arrivals = self._table[:, t.M_TIME].view(np.float64).tolist()
        numbers = self._table[:, t.M_NUMBER].tolist()
        for (kind, x, peer, _), number, end in zip(self._messages, numbers, arrivals, strict=True):
            ends = (session.rank, peer) if kind == "send" else (peer, session.rank)
            trace.record(
                self._stream,
                kind,
                self._started,
                ended,
                self.start,
                max(self.start, end),
                kind=kind,
                nbytes=x.nbytes,
                group=self._name,
                peer=session.ranks[peer],
                flow=_flow(self._name, *ends, number),
                dtype=data_type_of(x).name,
            )

    def _count(self, statistics: Statistics, wall: float, device: float) -> None:
        """Count the batch once, as the kind of its messages."""
        kinds = {kind for kind, *_ in self._messages}
        call = kinds.pop() if len(kinds) == 1 else "send_recv"
        sends = self._table[:, t.M_SENDS] == 1
        sent = int(self._table[sends, t.M_BYTES].sum())
        moved = max(sent, int(self._table[~sends, t.M_BYTES].sum()))
        statistics.of(self._name, call, "direct").add(moved, sent, wall, device)


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
