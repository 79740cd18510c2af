"""The device's memory pool: arrays from reused blocks, with an exact count of live and peak bytes.

A training step allocates the same shapes over and over; fresh pages would fault each time. Blocks
come in size classes, go out as arrays, and return when an array and all its views are gone.
"""

import math
import mmap
import weakref
from collections import deque
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
SLAB = 1 << 20  # bytes: smaller blocks are cut from slabs of this size
HUGE = 4 << 20  # bytes: from here on huge pages save most page faults


class _Block(NamedTuple):
    memory: mmap.mmap
    offset: int
    size: int


class _Lease(weakref.ref[Array]):
    """A block that is out as an array; the pool holds it until the array has gone."""

    __slots__ = ("block", "nbytes")
    block: _Block
    nbytes: int


def size_class(nbytes: int) -> int:
    """Round a size up to its class: multiples of 64 to 256 bytes, then four classes per doubling.

    At most a quarter of a block is unused above 256 bytes.
    """
    if nbytes <= 4 * ALIGNMENT:
        return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
    shift = (nbytes - 1).bit_length() - 3
    return (((nbytes - 1) >> shift) + 1) << shift


class MemoryPool:
    """Gives out aligned numpy arrays from blocks that it uses again.

    An array's memory is an anonymous map, an object that numpy does not look through: every view
    refers to the array itself, so the array's own end is the end of all views.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[_Block]] = {}
        self._leases: dict[int, _Lease] = {}
        # Filled by the interpreter when an array goes, at any point of any thread; a deque's
        # append needs no lock and no Python frame, so it is safe there and at exit.
        self._returned: deque[_Lease] = deque()
        self._slab: mmap.mmap | None = None
        self._slab_used = 0
        self._live = 0
        self._peak = 0
        self._lock = Lock()

    @property
    def live_bytes(self) -> int:
        """Bytes asked for by the arrays that exist now."""
        with self._lock:
            self._collect()
            return self._live

    @property
    def peak_bytes(self) -> int:
        """Largest `live_bytes` since the start or the last `reset_peak`."""
        return self._peak

    def reset_peak(self) -> None:
        """Start `peak_bytes` again from what is live now."""
        with self._lock:
            self._collect()
            self._peak = self._live

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
        """Allocate a C-contiguous array, aligned to 64 bytes, of undefined content.

        Raises
        ------
        ValueError : a dimension is negative, or the type holds Python objects.
        """
        kind = np.dtype(dtype)
        shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
        if kind.hasobject or (shape and min(shape) < 0):
            raise ValueError(f"the pool cannot hold an array of shape {shape} and type {kind}")
        nbytes = math.prod(shape) * kind.itemsize
        size = size_class(nbytes)
        with self._lock:
            if self._returned:
                self._collect()
            free = self._free.get(size)
            block = free.pop() if free else self._new_block(size)
            array: Array = np.ndarray(shape, kind, block.memory, block.offset)
            lease = _Lease(array, self._returned.append)
            lease.block = block
            lease.nbytes = nbytes
            self._leases[id(lease)] = lease
            self._live += nbytes
            self._peak = max(self._peak, self._live)
        return array

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
        """Allocate as `empty` does, filled with zeros."""
        array = self.empty(shape, dtype)
        array.fill(0)
        return array

    def trim(self) -> None:
        """Give the memory of all free blocks back to the system."""
        with self._lock:
            self._collect()
            self._free.clear()

    def _collect(self) -> None:
        while self._returned:
            lease = self._returned.popleft()
            del self._leases[id(lease)]
            self._live -= lease.nbytes
            self._free.setdefault(lease.block.size, []).append(lease.block)

    def _new_block(self, size: int) -> _Block:
        if size > SLAB // 4:
            return _Block(_map(size), 0, size)
        if self._slab is None or self._slab_used + size > SLAB:
            self._slab, self._slab_used = _map(SLAB), 0
        block = _Block(self._slab, self._slab_used, size)
        self._slab_used += size
        return block


def _map(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
