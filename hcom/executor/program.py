"""A program: one bound operation as the words and tables that the interpreter takes."""

import copy
import hashlib
from collections.abc import Sequence

import numpy as np

from hcom.executor import tables as t
from hcom.executor.compile import Tables
from hcom.transport.layout import TEXT_ROOM


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class Program:
    """The tables of one rank's part of an operation, ready to run.

    Parameters
    ----------
    tables : the compiled rows.
    fold : address of the fold loop, 0 where nothing is reduced.
    item : bytes of one element.
    description : what every rank must agree on, in words; its digest is compared between ranks
        and its text is what a mismatch shows.
    peers : whom to compare with even where no data goes between (all of them for empty calls).

    Attributes
    ----------
    address : of the words.
    scratch : memory for positions that neither array holds.
    """

    def __init__(
        self, tables: Tables, fold: int, item: int, description: str, peers: Sequence[int]
    ) -> None:
        self.description = description
        self.sent_bytes = tables.sent_bytes
        self.scratch = np.empty(tables.scratch_bytes, np.uint8)
        self._kept: list[np.ndarray] = []
        self._bases = np.zeros(3, np.int64)
        most = max((row[t.W_END] - row[t.W_BEGIN] for row in tables.write), default=1)
        self._sources = np.zeros(most, np.int64)
        self._own_arrays = np.zeros(2, np.int64)
        self._peer_arrays = np.zeros((max(peers, default=0) + 1, 2), np.int64)
        self._words = np.zeros(t.PROGRAM_WORDS, np.int64)
        self._fill(tables, fold, item, description, sorted(peers))
        self._connect()

    def _keep(self, rows: object, columns: int, kind: type = np.int64) -> int:
        """Keep rows alive as an array and return its address."""
        array: np.ndarray = np.array(rows, dtype=kind).reshape(-1, columns)
        self._kept.append(array)
        return _address(array)

    def _fill(
        self, tables: Tables, fold: int, item: int, description: str, peers: list[int]
    ) -> None:
        text = np.frombuffer(description.encode()[:TEXT_ROOM].ljust(1), np.uint8)
        digest = hashlib.blake2b(description.encode(), digest_size=8).digest()
        self._kept.append(text)
        values = {
            t.ROUNDS: len(tables.rounds),
            t.SLICES: tables.slices,
            t.LANES: 1 if tables.slices == 1 else 2,
            t.ROUND_TABLE: self._keep(tables.rounds, t.ROUND_COLUMNS),
            t.STAGE_TABLE: self._keep(tables.stage, t.STAGE_COLUMNS),
            t.WRITE_TABLE: self._keep(tables.write, t.WRITE_COLUMNS),
            t.OPERAND_TABLE: self._keep(tables.operand, t.OPERAND_COLUMNS),
            t.READER_TABLE: self._keep(tables.reader, 1),
            t.SENDER_TABLE: self._keep(tables.sender, 1),
            t.GUARD_TABLE: self._keep(tables.guard, t.GUARD_COLUMNS),
            t.FINAL_TABLE: self._keep(tables.final, t.GUARD_COLUMNS),
            t.FINALS: len(tables.final),
            t.COPY_TABLE: self._keep(tables.copy, t.COPY_COLUMNS),
            t.COPIES: len(tables.copy),
            t.PEER_TABLE: self._keep(peers, 1),
            t.PEERS: len(peers),
            t.COST_TABLE: self._keep(tables.cost, 2, np.float64),
            t.ARRIVAL_TABLE: self._keep(tables.arrival, 1, np.float64),
            t.SHORT: tables.short,
            t.DIRECT: tables.direct,
            t.PAST_CACHES: tables.streamed,
            t.FOLD: fold,
            t.ITEM: item,
            t.DIGEST: int.from_bytes(digest, "little", signed=True),
            t.TEXT_AT: _address(text),
            t.TEXT_SIZE: text.size,
        }
        for word, value in values.items():
            self._words[word] = value

    @property
    def bases(self) -> int:
        """Address of the three words that say where input, output and scratch start."""
        return _address(self._bases)

    def clone(self) -> "Program":
        """Return the same operation with arrays and scratch of its own, to run beside this one."""
        twin = copy.copy(self)
        twin._words, twin._bases = self._words.copy(), self._bases.copy()
        twin._sources, twin.scratch = self._sources.copy(), np.empty_like(self.scratch)
        twin._own_arrays, twin._peer_arrays = self._own_arrays.copy(), self._peer_arrays.copy()
        twin._connect()
        return twin

    def _connect(self) -> None:
        """Point the words at what each copy has of its own."""
        self.address = _address(self._words)
        self._bases[t.SCRATCH] = _address(self.scratch)
        self._words[t.BASES] = _address(self._bases)
        self._words[t.SOURCES] = _address(self._sources)
        self._words[t.OWN_ARRAYS] = _address(self._own_arrays)
        self._words[t.PEER_ARRAYS] = _address(self._peer_arrays)

    def point_at(self, x: np.ndarray | None, out: np.ndarray | None) -> None:
        """Take the arrays of the next run: contiguous, of the bound sizes."""
        self._bases[t.INPUT] = 0 if x is None else _address(x)
        self._bases[t.OUTPUT] = 0 if out is None else _address(out)
