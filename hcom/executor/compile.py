"""From a schedule and counts to one rank's tables: the rows that the interpreter walks.

All ranks read the same schedule, so each knows how every sender lays out its slot in every round.
Compilation follows where each position lives: until a round writes it, in the caller's input;
afterwards in the output, or in scratch where the output has no place for it.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from hcom.executor import tables as t
from hcom.executor.lifetime import Lifetime
from hcom.executor.placement import Counts, Placement, Span
from hcom.executor.rounds import Move, aligned, columns, is_short, sized, slices, staged, written
from hcom.schedule import Schedule
from hcom.schedule.moves import moves
from hcom.schedule.price import messages
from hcom.topology import Topology

Place = tuple[int, int]  # buffer and offset

# From so many bytes on peers read registered arrays directly: below, waiting for the last reader
# before the call returns costs more than the copy that it saves.
DIRECT_BYTES = 32 << 10
# From so many bytes on, what nobody reads again is written past the caches.
STREAMED_BYTES = 8 << 20


@dataclass
class Tables:
    """One rank's rows; column meanings in `hcom.executor.tables`."""

    slices: int
    short: bool = False
    direct: bool = False
    streamed: bool = False
    scratch_bytes: int = 0
    rounds: list[list[int]] = field(default_factory=list)
    stage: list[list[int]] = field(default_factory=list)
    write: list[list[int]] = field(default_factory=list)
    operand: list[list[int]] = field(default_factory=list)
    reader: list[int] = field(default_factory=list)
    sender: list[int] = field(default_factory=list)
    guard: list[list[int]] = field(default_factory=list)
    final: list[list[int]] = field(default_factory=list)
    copy: list[list[int]] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)
    cost: list[list[float]] = field(default_factory=list)
    arrival: list[float] = field(default_factory=list)
    sent_bytes: int = 0

    def ends(self) -> list[int]:
        """Lengths of the tables that a round has a part of, in the order of its columns."""
        parts = (self.stage, self.write, self.reader, self.sender, self.guard)
        return [len(part) for part in parts]


class _Compiler:
    """Walks the rounds for one rank and fills its tables."""

    def __init__(self, schedule: Schedule, counts: Counts, rank: int, slot_bytes: int) -> None:
        self.rank = rank
        self.placements = Placement.of_all(schedule, counts)
        self.placement = self.placements[rank]
        self.rounds = [sized(one, self.placement) for one in moves(schedule)]
        self.layouts = [staged(one) for one in self.rounds]
        self.lifetime = Lifetime(rank, self.rounds, self.layouts)
        nbytes = int(np.sum(counts))
        self.direct, self.streamed = nbytes >= DIRECT_BYTES, nbytes >= STREAMED_BYTES
        short = is_short(self.rounds, self.layouts, schedule.rank_size)
        cut = slices(self.layouts, slot_bytes)
        self.tables = Tables(cut, short, self.direct, self.streamed)
        self.moved: set[tuple[int, int]] = set()  # what an earlier round has written
        self.read_in: dict[int, dict[int, int]] = defaultdict(dict)  # position: {peer: round}
        self.place: dict[int, Place] = {
            position: (t.INPUT, offset) for position, (offset, _) in self.placement.inputs.items()
        }

    def _piece(self, nbytes: int) -> int:
        return aligned(-(-nbytes // self.tables.slices))

    def _home(self, position: int, nbytes: int) -> Place:
        """Where a written position lives: in the output if that holds it, else in scratch."""
        span: Span | None = self.placement.outputs.get(position)
        if span is not None:
            return (t.OUTPUT, span[0])
        buffer, offset = self.place.get(position, (t.INPUT, 0))
        if buffer != t.SCRATCH:
            offset = self.tables.scratch_bytes
            self.tables.scratch_bytes += aligned(nbytes)
        return (t.SCRATCH, offset)

    def _slot_offsets(self, layout: dict[int, int]) -> dict[int, int]:
        offsets, end = {}, 0
        for position, nbytes in layout.items():
            offsets[position] = end
            end += self._piece(nbytes)
        return offsets

    def _in_array(self, number: int, src: int, position: int) -> Place:
        """Where a peer's position stands in its arrays, for who reads it there; else (-1, 0).

        What the round writes is always staged: a reader might come late.
        """
        if not self.direct or self.lifetime.changes(number, src, position):
            return (-1, 0)
        placement, moved = self.placements[src], (src, position) in self.moved
        span = (placement.outputs if moved else placement.inputs).get(position)
        return (-1, 0) if span is None else (t.OUTPUT if moved else t.INPUT, span[0])

    def _stage_rows(self, number: int) -> None:
        layout = self.layouts[number].get(self.rank, {})
        offsets = self._slot_offsets(layout)
        for position, nbytes in layout.items():
            if self.lifetime.is_fused(number, position):
                continue
            buffer, _ = self._in_array(number, self.rank, position)
            row = [*self.place[position], nbytes, self._piece(nbytes), offsets[position], buffer]
            self.tables.stage.append(row)

    def _operand(self, number: int, move: Move) -> list[int]:
        if move.src == self.rank and not self.lifetime.changes(number, self.rank, move.src_chunk):
            return [-1, *self.place[move.src_chunk], -1, 0]
        slot = self._slot_offsets(self.layouts[number][move.src])[move.src_chunk]
        return [move.src, 0, slot, *self._in_array(number, move.src, move.src_chunk)]

    def _target(self, number: int, position: int, nbytes: int) -> list[int]:
        """Where a write goes: home, twin's place in the next slot, flags."""
        life, twin, twin_buffer = self.lifetime, -1, -1
        if life.has_twin(number, position):
            twin = self._slot_offsets(self.layouts[number + 1][self.rank])[position]
            unchanged = not life.changes(number + 1, self.rank, position)
            if self.direct and unchanged and position in self.placement.outputs:
                twin_buffer = t.OUTPUT
        ends = life.ends(number, position)
        if ends and twin >= 0 and position not in self.placement.outputs:
            return [t.NEXT_SLOT, twin, -1, -1, 0]
        home = self._home(position, nbytes)
        return [*home, twin, twin_buffer, int(self.streamed and ends and home[0] == t.OUTPUT)]

    def _write_rows(self, number: int) -> None:
        """Rows that make each received position, operands in order of rank."""
        groups: dict[int, list[Move]] = defaultdict(list)
        for move in self.rounds[number]:
            if move.dst == self.rank:
                groups[move.dst_chunk].append(move)
        spans = []
        for position, group in groups.items():
            operands = [(move.src, self._operand(number, move)) for move in group]
            if group[0].reduce:
                operands.insert(0, (self.rank, [-1, *self.place[position], -1, 0]))
            operands.sort(key=lambda operand: operand[0])  # stable: own value before local moves
            begin = len(self.tables.operand)
            self.tables.operand += [row for _, row in operands]
            spans.append((position, group[0].nbytes, begin, len(self.tables.operand)))
        # Only now: a round reads what stood there before it.
        for position, nbytes, *span in spans:
            buffer, offset, *rest = self._target(number, position, nbytes)
            if buffer != t.NEXT_SLOT:
                self.place[position] = (buffer, offset)
            row = [buffer, offset, nbytes, self._piece(nbytes), *span, *rest]
            self.tables.write.append(row)

    def _guard_rows(self, number: int) -> None:
        """Whom this round's writes wait for: peers that read those positions here, and when."""
        last: dict[int, int] = {}
        for position in {p for rank, p in written(self.rounds[number]) if rank == self.rank}:
            for peer, when in self.read_in[position].items():
                last[peer] = max(when, last.get(peer, -1))
        self.tables.guard += [[peer, when] for peer, when in sorted(last.items())]

    def _note_readers(self, number: int) -> None:
        for position, peers in self.lifetime.readers(number).items():
            if self._in_array(number, self.rank, position)[0] >= 0:
                self.read_in[position].update(dict.fromkeys(peers, number))

    def _round(self, number: int) -> None:
        tables, rank, one = self.tables, self.rank, self.rounds[number]
        begins = tables.ends()
        writes = len(tables.write)
        self._stage_rows(number)
        self._write_rows(number)
        self._guard_rows(number)
        self._note_readers(number)
        tables.reader += sorted({m.dst for m in one if m.src == rank != m.dst})
        tables.sender += sorted({m.src for m in one if m.dst == rank != m.src})
        tables.sent_bytes += sum(m.nbytes for m in one if m.src == rank != m.dst)
        edges = [edge for pair in zip(begins, tables.ends(), strict=True) for edge in pair]
        rows = tables.write[writes:]
        fuses = any(row[t.W_TWIN] >= 0 or row[t.W_BUFFER] == t.NEXT_SLOT for row in rows)
        tables.rounds.append([*edges, int(fuses)])
        self.moved |= written(one)

    def _clock_rows(self, one: list[Move], topology: Topology) -> None:
        """How long this rank's sends of a round take, and when its receives arrive."""
        priced = messages(columns(one), np.array([m.nbytes for m in one], np.int64), topology)
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

    def _final_rows(self) -> None:
        """Whom the call waits for before it returns: the last readers of this rank's arrays."""
        last: dict[int, int] = {}
        for readers in self.read_in.values():
            for peer, when in readers.items():
                last[peer] = max(when, last.get(peer, -1))
        self.tables.final = [[peer, when] for peer, when in sorted(last.items())]

    def compile(self, topology: Topology) -> Tables:
        """Fill the tables."""
        for number, one in enumerate(self.rounds):
            self._round(number)
            self._clock_rows(one, topology)
        self._copy_rows()
        self._final_rows()
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
