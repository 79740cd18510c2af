"""NHR_V1: the old NHR; ranks in a near-square grid, rings in its rows and columns.

For p ranks and n bytes in R rows of at most C columns (hccl.md 4.2, 4.4). The grid is the factor
pair of p nearest to the square if its sides differ by less than 5, else a square and the rest: one
more row if it fills, and one more column for the first rows.

| collective                 | steps             | cost with full rows, beside the alphas     |
|----------------------------|-------------------|--------------------------------------------|
| reduce_scatter, all_gather | (C-1) + (R-1)     | (p-1)/p n beta, and gamma                  |
| all_reduce                 | 2(C-1) + 2(R-1)   | 2(p-1)/p n beta + (p-1)/p n gamma          |

With an incomplete last column (C = W+1): in reduce_scatter and all_gather its ranks are appended
to the rings of complete columns, which then take R steps, and all_gather's busiest rank sends n
bytes; in all_reduce they own nothing, and the busiest rank sends
(1 + (W-1)/W + 2(R-1)/(R W)) n.
"""

from math import isqrt

import numpy as np

from hcom.algorithms import ring
from hcom.schedule import Round, Rounds, Schedule, mirrored, on, then, together
from hcom.schedule.value import IntArray


def grid(rank_size: int) -> list[IntArray]:
    """Give the ranks of each row; all rows have the length of the last or one more."""
    side = isqrt(rank_size)
    rows = max(d for d in range(1, side + 1) if rank_size % d == 0)
    widths = [rank_size // rows] * rows
    if rank_size // rows - rows >= 5:
        extra = rank_size - side * side
        widths = [side] * (side + extra // side)
        for row in range(extra % side):
            widths[row] += 1
    return np.split(np.arange(rank_size), np.cumsum(widths)[:-1])


def _row_ring(rounds: Rounds, width: int, columns: int) -> Schedule:
    """Make one row's part, on slices of the complete columns only."""
    part = Rounds(len(rounds), lambda k: rounds[k].where(rounds[k].src_chunk < columns))
    return Schedule("all_reduce", width, columns, part)


def all_reduce(rank_size: int) -> Schedule:
    """Reduce and scatter in the rows, all_reduce in the complete columns, gather in the rows."""
    rows = grid(rank_size)
    width = len(rows[-1])
    columns = np.array([row[:width] for row in rows]).T
    height = len(rows)
    first = np.arange(width) * height

    def in_rows(algorithm: str) -> Rounds:
        parts = []
        for row in rows:
            rounds = getattr(ring, algorithm)(len(row)).rounds
            parts.append(on(_row_ring(rounds, len(row), width), row, first, height))
        return together(*parts)

    in_columns = on(ring.all_reduce(height), columns, first[:, None] + np.arange(height))
    rounds = then(in_rows("reduce_scatter"), in_columns, in_rows("all_gather"))
    return Schedule("all_reduce", rank_size, width * height, rounds)


def all_gather(rank_size: int) -> Schedule:
    """Gather in the columns, then pass the columns' blocks round the rows."""
    rows = grid(rank_size)
    width = len(rows[-1])
    columns = [[int(row[j]) for row in rows] for j in range(width)]
    for j, row in enumerate(rows):
        columns[j % width] += row[width:].tolist()  # appended: row j's last rank, if it has one
    in_columns = [on(ring.all_gather(len(ranks)), ranks, ranks) for ranks in columns]
    in_rows = [_pass_round(row, j, columns) for j, row in enumerate(rows)]
    rounds = then(together(*in_columns), together(*in_rows))
    return Schedule("all_gather", rank_size, rank_size, rounds)


def _pass_round(row: IntArray, number: int, columns: list[list[int]]) -> Rounds:
    """Pass the blocks of every column round one row; an appended rank has its column's already."""
    width = len(row)
    part = ring.all_gather(width)

    def step(k: int) -> Round:
        moves = [
            (row[t.src], row[t.dst], block)
            for t in part.rounds[k]
            if t.src_chunk < len(columns) and not (t.dst == len(columns) and t.src_chunk == number)
            for block in columns[t.src_chunk]
        ]
        src, dst, chunk = np.array(moves, np.int64).reshape(-1, 3).T
        return Round(src, dst, chunk, chunk)

    return Rounds(width - 1, step)


def reduce_scatter(rank_size: int) -> Schedule:
    """Run the all_gather backwards: rows first, then columns."""
    return mirrored(all_gather(rank_size))
