"""An arena: this process's memory that its peers on the host map too.

It is a `memfd`: it has no name, so a killed job leaves nothing behind, and /dev/shm sets it no
limit. A peer opens it through `/proc/<pid>/fd/<fd>`. It is sparse: pages exist once touched.
"""

import ctypes
import math
import mmap
import os
import struct
import weakref
from dataclasses import dataclass, field

import numpy as np

from hcom.errors import HcomError
from hcom.transport.layout import HEADER_BYTES, PAGE, PID

# Address space only; a 16 GiB arena of which 3 MB are touched takes 3 MB.
RESERVED_BYTES = 16 << 30


@dataclass(frozen=True)
class ArenaName:
    """What a peer needs to open an arena: 24 bytes on the wire."""

    pid: int
    file: int
    nbytes: int

    def to_bytes(self) -> bytes:
        """Pack for the exchange at init."""
        return struct.pack("<3q", self.pid, self.file, self.nbytes)

    @staticmethod
    def from_bytes(data: bytes) -> "ArenaName":
        """Unpack what `to_bytes` made."""
        return ArenaName(*struct.unpack("<3q", data))


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


@dataclass
class Arena:
    """A mapped arena, own or a peer's; `address` is where it starts in this process."""

    memory: mmap.mmap
    name: ArenaName
    address: int = field(init=False)
    _free: list[tuple[int, int]] = field(init=False)
    _taken: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.address = _address(self.memory)
        self._free = [(HEADER_BYTES, self.name.nbytes - HEADER_BYTES)]

    @staticmethod
    def create(nbytes: int = RESERVED_BYTES) -> "Arena":
        """Make this process's own arena."""
        file = os.memfd_create("hcom", os.MFD_CLOEXEC)
        os.ftruncate(file, nbytes)
        arena = Arena(mmap.mmap(file, nbytes), ArenaName(os.getpid(), file, nbytes))
        struct.pack_into("<q", arena.memory, PID, os.getpid())
        return arena

    @staticmethod
    def open(name: ArenaName) -> "Arena":
        """Map a peer's arena.

        Raises
        ------
        HcomError : this host refuses /proc/<pid>/fd of another process.
        """
        path = f"/proc/{name.pid}/fd/{name.file}"
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as cause:
            raise HcomError(f"cannot map the memory of process {name.pid}: {cause}") from cause
        try:
            return Arena(mmap.mmap(file, name.nbytes), name)
        finally:
            os.close(file)

    def allocate(self, nbytes: int) -> int:
        """Reserve whole pages and return their offset.

        Raises
        ------
        HcomError : the arena is full.
        """
        need = -(-nbytes // PAGE) * PAGE
        for index, (start, size) in enumerate(self._free):
            if size >= need:
                self._free[index] = (start + need, size - need)
                self._taken[start] = need
                return start
        raise HcomError(
            f"no room for {nbytes} bytes in this rank's arena of {self.name.nbytes} bytes"
        )

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Make an array here; its pages are given back when it and all its views are gone."""
        nbytes = math.prod(shape) * dtype.itemsize
        offset = self.allocate(max(nbytes, 1))
        # numpy does not look through a map: every view refers to this array itself.
        array: np.ndarray = np.ndarray(shape, dtype, self.memory, offset)
        weakref.finalize(array, self.release, offset).atexit = False
        return array

    def release(self, offset: int) -> None:
        """Give pages of `allocate` back, zeroed and to the system too."""
        size = self._taken.pop(offset)
        self.memory.madvise(mmap.MADV_REMOVE, offset, size)
        self._free = _merge([*self._free, (offset, size)])


def _merge(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbours among free pieces (start, size)."""
    merged: list[tuple[int, int]] = []
    for start, size in sorted(pieces):
        if merged and sum(merged[-1]) == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + size)
        else:
            merged.append((start, size))
    return merged
