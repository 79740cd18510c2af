"""An operation: a collective bound to a communicator, types and counts, ready to run often."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from hcom.data_type import DataType
from hcom.device import current
from hcom.executor.compile import compile_tables
from hcom.executor.engine import COLLECTIVE
from hcom.executor.fold import fold_address
from hcom.executor.placement import Counts
from hcom.executor.program import Program
from hcom.executor.session import Session
from hcom.schedule import Schedule
from hcom.selector import choose, resolve
from hcom.statistics import Record, Statistics
from hcom.topology import Topology
from hcom.work import Work

# Bound operations kept per communicator; the one unused for longest goes first.
KEPT = 256


@dataclass(frozen=True)
class Request:
    """What decides an operation's tables: equal requests share them.

    Attributes
    ----------
    counts : bytes, as `hcom.schedule.layout.Layout.of` takes them.
    nbytes : bytes of the whole call, for the choice of an algorithm and the statistics.
    algorithm : what the caller asks for, or None.
    detail : what else the ranks must agree on.
    """

    collective: str
    kind: DataType
    op: str
    root: int
    counts: Counts
    nbytes: int
    algorithm: str | Schedule | None = None
    detail: str = ""


class Operation:
    """A program with what a call records of it.

    Parameters
    ----------
    stream : the communicator's, on the device clock and in the trace.
    """

    def __init__(self, request: Request, program: Program, record: Record, stream: str) -> None:
        self._request, self._program = request, program
        self._record, self._stream = record, stream

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self._request

    @property
    def program(self) -> Program:
        """The tables that run."""
        return self._program

    @property
    def record(self) -> Record:
        """Where calls are counted."""
        return self._record

    @property
    def stream(self) -> str:
        """The communicator's stream on the device clock and in the trace."""
        return self._stream

    def run(self, session: Session, x: np.ndarray | None, out: np.ndarray | None) -> None:
        """Run on contiguous arrays of the bound sizes."""
        started, start = perf_counter(), current().issue(self._stream)
        session.clock[0] = start
        self._program.point_at(x, out)
        session.run(self._program)
        times = (started, perf_counter(), start, float(session.clock[0]))
        self._account(times, session.sequence)

    def start(
        self,
        session: Session,
        x: np.ndarray | None,
        out: np.ndarray | None,
        deliver: Callable[[], Any],
    ) -> Work:
        """Make a handle of a run on contiguous arrays; `deliver` is called when it is over."""
        started, start = perf_counter(), current().issue(self._stream)
        program = self._program.clone()
        program.point_at(x, out)

        def finish(work: Work) -> Any:
            kept = (program, x, out)  # alive until here
            self._account((started, work.wall_end, start, work.end), work.sequence)
            del kept
            return deliver()

        command = (COLLECTIVE, program.address, 0)
        return Work(session, program.description, command, start, session.needs, finish)

    def _account(self, times: tuple[float, float, float, float], sequence: int) -> None:
        """Move the device clock past the run, trace it and count it."""
        started, ended, start, end = times
        device, request = current(), self._request
        device.settle(self._stream, end)
        device.join(end)
        device.trace.record(
            self._stream,
            request.collective,
            started,
            ended,
            start,
            end,
            kind="collective",
            nbytes=request.nbytes,
            group=self._record.group,
            sequence=sequence,
            dtype=request.kind.name,
            reduce_op=request.op,
        )
        self._record.add(request.nbytes, self._program.sent_bytes, ended - started, end - start)


class Binder:
    """Makes a communicator's operations and keeps them.

    Parameters
    ----------
    name : of the communicator.
    """

    def __init__(
        self, name: str, session: Session, topology: Topology, statistics: Statistics
    ) -> None:
        self._name, self._session = name, session
        self._topology, self._statistics = topology, statistics
        self._kept: OrderedDict[Request, Operation] = OrderedDict()

    def bind(self, request: Request) -> Operation:
        """Return the operation of a request."""
        operation = self._kept.get(request)
        if operation is None:
            operation = self._kept[request] = self._bind(request)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(request)
        return operation

    def _bind(self, request: Request) -> Operation:
        session = self._session
        size = len(session.ranks)
        algorithm = request.algorithm or choose(request.collective, request.nbytes, size)
        schedule = resolve(algorithm, request.collective, size, request.root)
        tables = compile_tables(
            schedule, request.counts, session.rank, session.sizes.slot, self._topology
        )
        others = [member for member in range(size) if member != session.rank]
        # Without data between ranks the call is still compared with everybody's.
        peers = tables.peers if request.nbytes else others
        fold = fold_address(request.kind, request.op) if request.op else 0
        program = Program(tables, fold, request.kind.nbytes, _description(request, schedule), peers)
        record = self._statistics.of(self._name, request.collective, schedule.name)
        return Operation(request, program, record, f"comm:{self._name}")


def _description(request: Request, schedule: Schedule) -> str:
    """Put in words what all ranks must agree on."""
    parts = [f"bytes={request.counts}", f"type={request.kind.name}"]
    if request.op:
        parts.append(f"op={request.op}")
    if request.collective in ("broadcast", "reduce", "scatter", "gather"):
        parts.append(f"root={schedule.root}")
    parts.append(f"algorithm={schedule.name}")
    if request.detail:
        parts.append(request.detail)
    return f"{request.collective}({', '.join(parts)})"
