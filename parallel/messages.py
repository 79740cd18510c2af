"""Bytes of any length between ranks: an hcom collective needs equal counts, so lengths go first."""

import numpy as np
import numpy.typing as npt

from parallel.group import Group

Bytes = npt.NDArray[np.uint8]


def gather_bytes(payload: bytes, group: Group) -> list[bytes]:
    """Collect every rank's bytes at rank 0 of the group; other ranks get an empty list."""
    sizes = group.all_gather(np.array([len(payload)], np.int64))
    padded = np.zeros((1, int(sizes.max())), np.uint8)
    padded[0, : len(payload)] = np.frombuffer(payload, np.uint8)
    rows = group.gather(padded)  # (ranks, size)
    if rows is None:
        return []
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def broadcast_bytes(payload: bytes, group: Group) -> bytes:
    """Give every rank the bytes of rank 0 of the group; what others pass is ignored."""
    size = int(group.broadcast(np.array([len(payload)], np.int64))[0])
    buffer = np.zeros(size, np.uint8)
    if group.rank == 0:
        buffer[:] = np.frombuffer(payload, np.uint8)
    return group.broadcast(buffer).tobytes()
