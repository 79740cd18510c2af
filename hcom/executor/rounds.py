"""What each round of a schedule moves, with its bytes: what all ranks know alike of each other."""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hcom.errors import NotSupportedError
from hcom.executor.placement import Placement
from hcom.schedule.moves import Moves
from hcom.transport.layout import LINE, SHORT_BYTES

Staged = dict[int, dict[int, int]]  # rank -> position -> bytes, in the order of its slot


@dataclass(frozen=True)
class Move:
    """One chunk from rank to rank, with the bytes of its value."""

    src: int
    dst: int
    src_chunk: int
    dst_chunk: int
    reduce: bool
    nbytes: int


class Columns(NamedTuple):
    """What the cost model reads of a round."""

    src: np.ndarray
    dst: np.ndarray
    reduce: np.ndarray


def columns(one: list[Move]) -> Columns:
    """Give a round's moves as the cost model takes them."""
    rows = np.array([(move.src, move.dst, move.reduce) for move in one], np.int64).reshape(-1, 3)
    return Columns(*rows.T)


def aligned(nbytes: int) -> int:
    """Round up to whole cache lines."""
    return -(-nbytes // LINE) * LINE


def sized(round_moves: Moves, placement: Placement) -> list[Move]:
    """Give the moves of a round that carry anything."""
    lists = (np.asarray(column).tolist() for column in round_moves)
    all_moves = (
        Move(src, dst, here, there, bool(reduce), placement.size(rank, origin))
        for src, dst, here, there, reduce, origin, rank in zip(*lists, strict=True)
    )
    return [move for move in all_moves if move.nbytes > 0]


def written(round_moves: list[Move]) -> set[tuple[int, int]]:
    """Tell which (rank, position) a round writes."""
    return {(move.dst, move.dst_chunk) for move in round_moves}


def staged(round_moves: list[Move]) -> Staged:
    """Tell what each rank stages in a round.

    A local move is staged only where its source is written in the same round.
    """
    changed = written(round_moves)
    found: Staged = defaultdict(dict)
    for move in round_moves:
        if move.src != move.dst or (move.src, move.src_chunk) in changed:
            found[move.src][move.src_chunk] = move.nbytes
    return found


def slices(layouts: list[Staged], slot_bytes: int) -> int:
    """Into how many slices the call is cut so that no rank's round exceeds a slot.

    Raises
    ------
    NotSupportedError : a rank sends more positions in a round than a slot has cache lines.
    """
    sizes = [list(chunks.values()) for layout in layouts for chunks in layout.values()]
    most, room = max(map(len, sizes), default=0), slot_bytes // LINE
    if most > room:
        raise NotSupportedError(
            f"EI0003: a round of this schedule sends {most} positions from one rank, of which "
            f"{room} fit in a staging slot of {slot_bytes} bytes: use fewer chunks a round"
        )
    count = 1
    while any(sum(aligned(-(-n // count)) for n in chunks) > slot_bytes for chunks in sizes):
        most = max(sum(chunks) for chunks in sizes)
        count = max(count + 2 - count % 2, -(-most // slot_bytes) // 2 * 2)
    return count


def is_short(rounds: list[list[Move]], layouts: list[Staged], rank_size: int) -> bool:
    """Tell whether a call is one round in which everybody sends everybody else a little.

    Its data goes with the descriptors that are compared anyway. That needs all pairs: who has
    compared all descriptors knows that nobody still reads the data of the call before.
    """
    if len(rounds) != 1 or rank_size == 1:
        return False
    pairs = {(move.src, move.dst) for move in rounds[0] if move.src != move.dst}
    if len(pairs) != rank_size * (rank_size - 1):
        return False
    return all(sum(map(aligned, chunks.values())) <= SHORT_BYTES for chunks in layouts[0].values())
