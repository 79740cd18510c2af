"""From a schedule and counts to one rank's tables: the rows that the interpreter walks.

All ranks read the same schedule, so each knows how every sender lays out its slot in every round.
Compilation follows where each position lives: until a round writes it, in the caller's input;
afterwards in the output, or in scratch where the output has no place for it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hcom.errors import NotSupportedError
from hcom.executor import tables as t
from hcom.executor.placement import Counts, Placement, Span
from hcom.schedule import Schedule
from hcom.schedule.moves import Moves, moves
from hcom.schedule.price import messages
from hcom.topology import Topology
from hcom.transport.layout import LINE

Place = tuple[int, int]  # buffer and offset


def _aligned(nbytes: int) -> int:
    return -(-nbytes // LINE) * LINE


@dataclass(frozen=True)
class _Move:
    """One chunk from rank to rank, with the bytes of its value."""

    src: int
    dst: int
    src_chunk: int
    dst_chunk: int
    reduce: bool
    nbytes: int


class _Columns(NamedTuple):
    """What the cost model reads of a round."""

    src: np.ndarray
    dst: np.ndarray
    reduce: np.ndarray


def _columns(one: list[_Move]) -> _Columns:
    rows = np.array([(move.src, move.dst, move.reduce) for move in one], np.int64).reshape(-1, 3)
    return _Columns(*rows.T)


def _sized(round_moves: Moves, placement: Placement) -> list[_Move]:
    """Give the moves of a round that carry anything."""
    columns = (np.asarray(column).tolist() for column in round_moves)
    sized = (
        _Move(src, dst, here, there, bool(reduce), placement.size(rank, origin))
        for src, dst, here, there, reduce, origin, rank in zip(*columns, strict=True)
    )
    return [move for move in sized if move.nbytes > 0]


def _staged(round_moves: list[_Move]) -> dict[int, dict[int, int]]:
    """Tell what each rank stages in a round: {rank: {position: bytes}}, in the order of its slot.

    A local move is staged only where its source is written in the same round.
    """
    written = {(move.dst, move.dst_chunk) for move in round_moves}
    staged: dict[int, dict[int, int]] = defaultdict(dict)
    for move in round_moves:
        if move.src != move.dst or (move.src, move.src_chunk) in written:
            staged[move.src][move.src_chunk] = move.nbytes
    return staged


def _slices(layouts: list[dict[int, dict[int, int]]], slot_bytes: int) -> int:
    """Into how many slices the call is cut so that no rank's round exceeds a slot."""
    sizes = [list(chunks.values()) for staged in layouts for chunks in staged.values()]
    most, room = max(map(len, sizes), default=0), slot_bytes // LINE
    if most > room:
        raise NotSupportedError(
            f"EI0003: a round of this schedule sends {most} positions from one rank, of which "
            f"{room} fit in a staging slot of {slot_bytes} bytes: use fewer chunks a round"
        )
    slices = 1
    while any(sum(_aligned(-(-n // slices)) for n in chunks) > slot_bytes for chunks in sizes):
        most = max(sum(chunks) for chunks in sizes)
        slices = max(slices + 2 - slices % 2, -(-most // slot_bytes) // 2 * 2)
    return slices


@dataclass
class Tables:
    """One rank's rows; column meanings in `hcom.executor.tables`."""

    slices: int
    scratch_bytes: int = 0
    rounds: list[list[int]] = field(default_factory=list)
    stage: list[list[int]] = field(default_factory=list)
    write: list[list[int]] = field(default_factory=list)
    operand: list[list[int]] = field(default_factory=list)
    reader: list[int] = field(default_factory=list)
    sender: list[int] = field(default_factory=list)
    copy: list[list[int]] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)
    cost: list[list[float]] = field(default_factory=list)
    arrival: list[float] = field(default_factory=list)
    sent_bytes: int = 0


class _Compiler:
    """Walks the rounds for one rank and fills its tables."""

    def __init__(self, schedule: Schedule, counts: Counts, rank: int, slot_bytes: int) -> None:
        self.rank = rank
        self.placement = Placement(schedule, counts, rank)
        self.rounds = [_sized(one, self.placement) for one in moves(schedule)]
        self.layouts = [_staged(one) for one in self.rounds]
        self.tables = Tables(_slices(self.layouts, slot_bytes))
        self.place: dict[int, Place] = {
            position: (t.INPUT, offset) for position, (offset, _) in self.placement.inputs.items()
        }

    def _piece(self, nbytes: int) -> int:
        return _aligned(-(-nbytes // self.tables.slices))

    def _home(self, position: int, nbytes: int) -> Place:
        """Where a written position lives: in the output if that holds it, else in scratch."""
        span: Span | None = self.placement.outputs.get(position)
        if span is not None:
            return (t.OUTPUT, span[0])
        buffer, offset = self.place.get(position, (t.INPUT, 0))
        if buffer != t.SCRATCH:
            offset = self.tables.scratch_bytes
            self.tables.scratch_bytes += _aligned(nbytes)
        return (t.SCRATCH, offset)

    def _slot_offsets(self, staged: dict[int, int]) -> dict[int, int]:
        offsets, end = {}, 0
        for position, nbytes in staged.items():
            offsets[position] = end
            end += self._piece(nbytes)
        return offsets

    def _stage_rows(self, staged: dict[int, int]) -> None:
        offsets = self._slot_offsets(staged)
        for position, nbytes in staged.items():
            buffer, offset = self.place[position]
            row = [buffer, offset, nbytes, self._piece(nbytes), offsets[position]]
            self.tables.stage.append(row)

    def _operand(self, move: _Move, layout: dict[int, dict[int, int]]) -> list[int]:
        staged = layout.get(move.src, {})
        if move.src == self.rank and move.src_chunk not in staged:
            return [-1, *self.place[move.src_chunk]]
        return [move.src, 0, self._slot_offsets(staged)[move.src_chunk]]

    def _write_rows(self, incoming: list[_Move], layout: dict[int, dict[int, int]]) -> None:
        """Rows that make each received position, operands in order of rank."""
        groups: dict[int, list[_Move]] = defaultdict(list)
        for move in incoming:
            groups[move.dst_chunk].append(move)
        homes: dict[int, Place] = {}
        for position, group in groups.items():
            operands = [(move.src, self._operand(move, layout)) for move in group]
            if group[0].reduce:
                operands.insert(0, (self.rank, [-1, *self.place[position]]))
            operands.sort(key=lambda operand: operand[0])  # stable: own value before local moves
            begin = len(self.tables.operand)
            self.tables.operand += [row for _, row in operands]
            nbytes = group[0].nbytes
            homes[position] = home = self._home(position, nbytes)
            ends = [begin, len(self.tables.operand)]
            self.tables.write.append([*home, nbytes, self._piece(nbytes), *ends])
        self.place.update(homes)

    def _round(self, one: list[_Move], layout: dict[int, dict[int, int]]) -> None:
        tables, rank = self.tables, self.rank
        begins = [len(x) for x in (tables.stage, tables.write, tables.reader, tables.sender)]
        self._stage_rows(layout.get(rank, {}))
        self._write_rows([move for move in one if move.dst == rank], layout)
        tables.reader += sorted({m.dst for m in one if m.src == rank != m.dst})
        tables.sender += sorted({m.src for m in one if m.dst == rank != m.src})
        tables.sent_bytes += sum(m.nbytes for m in one if m.src == rank != m.dst)
        ends = [len(x) for x in (tables.stage, tables.write, tables.reader, tables.sender)]
        tables.rounds.append([edge for pair in zip(begins, ends, strict=True) for edge in pair])

    def _clock_rows(self, one: list[_Move], topology: Topology) -> None:
        """How long this rank's sends of a round take, and when its receives arrive."""
        priced = messages(_columns(one), np.array([m.nbytes for m in one], np.int64), topology)
        leaves = priced.duration[priced.src == self.rank]
        comes = priced.dst == self.rank
        # Summed one by one in order, as price does.
        reduces = sum(priced.apply[comes].tolist())
        self.tables.cost.append([float(leaves.max(initial=0.0)), reduces])
        self.tables.arrival += priced.duration[comes & (priced.src != self.rank)].tolist()

    def _copy_rows(self) -> None:
        """Bring what still lives in the input to the output."""
        for position, (offset, nbytes) in self.placement.outputs.items():
            buffer, start = self.place.get(position, (t.OUTPUT, offset))
            if buffer == t.INPUT and nbytes:
                self.tables.copy.append([buffer, start, t.OUTPUT, offset, nbytes])

    def compile(self, topology: Topology) -> Tables:
        """Fill the tables."""
        for one, layout in zip(self.rounds, self.layouts, strict=True):
            self._round(one, layout)
            self._clock_rows(one, topology)
        self._copy_rows()
        self.tables.peers = sorted({*self.tables.reader, *self.tables.sender})
        return self.tables


def compile_tables(
    schedule: Schedule, counts: Counts, rank: int, slot_bytes: int, topology: Topology
) -> Tables:
    """Compile one rank's part of a schedule.

    Parameters
    ----------
    schedule : a schedule that `check` accepts.
    counts : bytes of the call.
    rank : whose part, in the group.
    slot_bytes : size of a staging slot.
    topology : where the device clock takes its figures from.
    """
    return _Compiler(schedule, counts, rank, slot_bytes).compile(topology)
