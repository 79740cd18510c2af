"""Where positions lie in bytes: a schedule counts chunks, a call binds them to its data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hcom.schedule.meaning import BLOCKED, chunks_per_block
from hcom.schedule.value import IntArray, Schedule

ALIGN = 64  # bytes, a cache line: no two ranks write to one


def borders(nbytes: int, num_chunks: int) -> IntArray:
    """Give the `num_chunks + 1` borders of a buffer's chunks, in bytes.

    Chunk i starts at `min(n, align_up(i * n / num_chunks, 64))`, so that refining a schedule
    (twice as many chunks) moves no border. The last chunks of small data are empty.
    """
    i = np.arange(num_chunks + 1, dtype=np.int64)
    # i * n / chunks without leaving 64 bits
    exact = i * (nbytes // num_chunks) + -(-(i * (nbytes % num_chunks)) // num_chunks)
    aligned: IntArray = -(-exact // ALIGN) * ALIGN
    return np.minimum(aligned, nbytes)


@dataclass(frozen=True)
class Layout:
    """The byte range of every position, on every rank.

    Attributes
    ----------
    start, size : int64 (rank_size, num_chunks), bytes. The start counts from the beginning of the
        whole buffer (block 0's start where there are blocks), for all_to_all from the beginning
        of the rank's input for the first half and of its output for the second. A value keeps
        the size of the position it came from, wherever it goes.
    """

    start: IntArray
    size: IntArray

    @classmethod
    def of(cls, schedule: Schedule, nbytes: int | Sequence[int] | IntArray) -> "Layout":
        """Bind a schedule to data.

        Parameters
        ----------
        nbytes : the full buffer (with blocks the large side: all of them; for all_to_all the
            input of one rank); or the bytes of each block, (rank_size,); or for all_to_all the
            bytes that row r sends to column d, (rank_size, rank_size).

        Raises
        ------
        ValueError : negative bytes, or a shape that the collective does not have.
        """
        p, given = schedule.rank_size, np.asarray(nbytes, np.int64)
        if (given < 0).any():
            raise ValueError(f"bytes are not negative ({given.min()})")
        if schedule.collective not in BLOCKED:
            if given.ndim:
                raise ValueError(f"{schedule.collective} has one buffer, no blocks {given.shape}")
            return cls._rows(p, borders(int(given), schedule.num_chunks)[None])
        k = chunks_per_block(schedule)
        if given.ndim == 0:
            i = np.arange(p + 1)
            given = np.diff(i * (given // p) + i * (given % p) // p)
        if schedule.collective != "all_to_all":
            return cls._rows(p, _pieces(given.reshape(1, p), k))
        matrix = np.broadcast_to(given, (p, p))
        sent, received = _pieces(matrix, k), _pieces(matrix.T, k)
        return cls(
            np.hstack([sent[:, :-1], received[:, :-1]]),
            np.hstack([np.diff(sent), np.diff(received)]),
        )

    @classmethod
    def _rows(cls, p: int, edges: IntArray) -> "Layout":
        shape = (p, edges.shape[1] - 1)
        return cls(np.broadcast_to(edges[:, :-1], shape), np.broadcast_to(np.diff(edges), shape))


def _pieces(blocks: IntArray, k: int) -> IntArray:
    """Split rows of block sizes into k chunks a block: the borders of each row."""
    ends = np.cumsum(blocks, axis=1)
    inner = {n: borders(n, k)[1:] for n in np.unique(blocks).tolist()}
    edges = np.array([[inner[n] for n in row] for row in blocks.tolist()], np.int64)
    edges = (edges + (ends - blocks)[:, :, None]).reshape(len(blocks), -1)
    return np.pad(edges, ((0, 0), (1, 0)))
