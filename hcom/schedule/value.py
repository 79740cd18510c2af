"""The schedule value: who sends what to whom, in which round; plain data that judges nothing."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Ints = npt.ArrayLike  # a scalar, or anything that broadcasts against the other columns


class ScheduleError(ValueError):
    """A schedule does not do what it says; the text names schedule, round and transfer."""


class Transfer(NamedTuple):
    """`count` consecutive chunks move from rank `src` to rank `dst`; `reduce` adds them in.

    It prints as `c3:0>1`, a reduction as `c3:0+>1`, several chunks as `c3-5:0>1`, and with
    `:c7` behind it where the first chunk arrives at another position than it left.
    """

    src: int
    dst: int
    src_chunk: int
    dst_chunk: int
    reduce: bool = False
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, of no use here

    def __str__(self) -> str:
        last = "" if self.count == 1 else f"-{self.src_chunk + self.count - 1}"
        there = "" if self.src_chunk == self.dst_chunk else f":c{self.dst_chunk}"
        return f"c{self.src_chunk}{last}:{self.src}{'+' if self.reduce else ''}>{self.dst}{there}"


class Round:
    """Transfers that all read their sources before any of them is applied.

    Parameters
    ----------
    src, dst, src_chunk, dst_chunk, count : integer columns that broadcast against each other: a
        scalar, one value a rank (shape (p,)), or one a rank and chunk (shapes (p, 1) and (p, c)).
    reduce : boolean column, likewise.
    """

    __slots__ = ("count", "dst", "dst_chunk", "reduce", "src", "src_chunk")

    def __init__(
        self,
        src: Ints,
        dst: Ints,
        src_chunk: Ints,
        dst_chunk: Ints,
        reduce: npt.ArrayLike = False,
        count: Ints = 1,
    ) -> None:
        self.src: IntArray = np.asarray(src, np.int64)
        self.dst: IntArray = np.asarray(dst, np.int64)
        self.src_chunk: IntArray = np.asarray(src_chunk, np.int64)
        # One object where positions agree: `in_place` then needs no comparison.
        same = dst_chunk is src_chunk
        self.dst_chunk: IntArray = self.src_chunk if same else np.asarray(dst_chunk, np.int64)
        self.reduce: npt.NDArray[np.bool_] = np.asarray(reduce, np.bool_)
        self.count: IntArray = np.asarray(count, np.int64)

    @classmethod
    def of(cls, transfers: "Round | Iterable[Transfer]") -> "Round":
        """Make a round from listed transfers; a round is returned as it is."""
        if isinstance(transfers, Round):
            return transfers
        return cls(*np.array(list(transfers), np.int64).reshape(-1, 6).T)

    @property
    def shape(self) -> tuple[int, ...]:
        """What the columns broadcast to."""
        every = (self.src, self.dst, self.src_chunk, self.dst_chunk, self.reduce, self.count)
        return np.broadcast_shapes(*(column.shape for column in every))

    @property
    def in_place(self) -> bool:
        """Every chunk arrives at the position it left."""
        return self.src_chunk is self.dst_chunk or bool((self.src_chunk == self.dst_chunk).all())

    def columns(self) -> tuple[IntArray, ...]:
        """Give src, dst, src_chunk, dst_chunk, reduce (0 or 1), count: flat int64, in order."""
        reduce = self.reduce.astype(np.int64)
        every = (self.src, self.dst, self.src_chunk, self.dst_chunk, reduce, self.count)
        return tuple(column.ravel() for column in np.broadcast_arrays(*every))

    def singles(self) -> "Round":
        """Give the same moves with one chunk each."""
        if (self.count == 1).all():
            return self
        *columns, count = self.columns()
        src, dst, src_chunk, dst_chunk, reduce = (np.repeat(c, count) for c in columns)
        step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        first = src_chunk + step
        there = first if self.in_place else dst_chunk + step
        return Round(src, dst, first, there, reduce)

    def where(self, wanted: npt.ArrayLike) -> "Round":
        """Keep the transfers for which a mask (it broadcasts to the columns) is true."""
        mask = np.broadcast_to(wanted, self.shape).ravel()
        return Round(*(column[mask] for column in self.columns()))

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[Transfer]:
        rows = zip(*(column.tolist() for column in self.columns()), strict=True)
        for src, dst, src_chunk, dst_chunk, reduce, count in rows:
            yield Transfer(src, dst, src_chunk, dst_chunk, bool(reduce), count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Round):
            return NotImplemented
        return all(map(np.array_equal, self.columns(), other.columns()))

    __hash__ = None  # type: ignore[assignment]  # arrays inside: compared, never looked up

    def __repr__(self) -> str:
        return f"Round({' '.join(map(str, self))})"


class Rounds(Sequence[Round]):
    """A lazy sequence of rounds: one is computed when it is asked for.

    Parameters
    ----------
    length : number of rounds.
    make : round number (0 to length - 1) -> Round.
    """

    __slots__ = ("_length", "_make")

    def __init__(self, length: int, make: Callable[[int], Round]) -> None:
        self._length, self._make = length, make

    @classmethod
    def of(cls, rounds: Iterable[Round | Iterable[Transfer]]) -> "Rounds":
        """Make a sequence from listed rounds or lists of transfers."""
        if isinstance(rounds, Rounds):
            return rounds
        listed = [Round.of(r) for r in rounds]
        return cls(len(listed), listed.__getitem__)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> "Rounds": ...
    def __getitem__(self, index: int | slice) -> "Round | Rounds":
        numbers = range(self._length)[index]
        if isinstance(numbers, int):
            return self._make(numbers)
        return Rounds(len(numbers), lambda i: self._make(numbers[i]))

    def __iter__(self) -> Iterator[Round]:
        return map(self._make, range(self._length))

    def __reversed__(self) -> Iterator[Round]:
        return iter(self[::-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rounds):
            return NotImplemented
        return len(self) == len(other) and all(map(Round.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # as Round


@dataclass(frozen=True, init=False)
class Schedule:
    """One collective as data: a global list of rounds, of which a rank runs its part.

    Parameters
    ----------
    collective : one of `hcom.schedule.COLLECTIVES`.
    rank_size : number of ranks.
    num_chunks : positions of the user's data (which ones are what: `hcom.schedule.meaning`).
    rounds : a `Rounds`, or lists of `Round` or of `Transfer`.
    root : the rooted collectives' root.
    num_scratch : further positions, from `num_chunks` up, that hold nothing before.
    name : what made it, for messages.
    """

    collective: str
    rank_size: int
    num_chunks: int
    rounds: Rounds
    root: int = 0
    num_scratch: int = 0
    name: str = ""

    def __init__(
        self,
        collective: str,
        rank_size: int,
        num_chunks: int,
        rounds: Iterable[Round | Iterable[Transfer]],
        root: int = 0,
        num_scratch: int = 0,
        name: str = "",
    ) -> None:
        values = (collective, rank_size, num_chunks, Rounds.of(rounds), root, num_scratch, name)
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)  # as a frozen dataclass's own __init__

    def __hash__(self) -> int:
        return hash((self.collective, self.rank_size, self.num_chunks, self.root, self.name))

    @property
    def num_positions(self) -> int:
        """Positions of data and scratch together."""
        return self.num_chunks + self.num_scratch

    @property
    def title(self) -> str:
        """The first line of the text form: everything but the rounds."""
        parts = [self.collective, f"ranks={self.rank_size}", f"chunks={self.num_chunks}"]
        parts += [f"root={self.root}"] if self.root else []
        parts += [f"scratch={self.num_scratch}"] if self.num_scratch else []
        parts += [f"name={self.name}"] if self.name else []
        return " ".join(parts)

    def __str__(self) -> str:
        table = [[str(transfer) for transfer in round] for round in self.rounds]
        cell = max((len(text) for row in table for text in row), default=0)
        number = len(str(max(len(table) - 1, 0)))
        lines = (
            f"{i:>{number}} | " + " ".join(text.ljust(cell) for text in row)
            for i, row in enumerate(table)
        )
        return "\n".join([self.title, *(line.rstrip() for line in lines)])
