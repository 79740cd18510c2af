"""Checkpoints: one file per rank, and a directory that appears only when it is whole.

    checkpoints/
        step-000100.partial/         being written; a killed run leaves it behind, nobody reads it
        step-000050/
            rank-00000.ckpt          every rank's own share
            rank-00001.ckpt
        latest                       name of the newest whole directory

A file is written under a temporary name, forced to disk and renamed. After a barrier rank 0 renames
the directory, then replaces `latest`; both are atomic. A file holds

    8 bytes     MAGIC
    16 bytes    size and crc32 of the header, little-endian
    header      msgpack: {"state": {...}, "arrays": [[name, dtype, shape, offset, crc32], ...]}
    arrays      raw, little-endian, each from a multiple of 64 bytes on; offsets count from the
                first byte after the header, rounded up to 64
"""

import math
import os
import re
import shutil
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from hcom.errors import ConfigError
from parallel.group import Group

Array = npt.NDArray[Any]
State = dict[str, Any]

MAGIC = b"HCOMCK01"
ALIGNMENT = 64  # bytes
_PREFIX = struct.Struct("<8sQQ")
_WHOLE = re.compile(r"step-(\d{6,})")


def save(root: Path, step: int, state: State, arrays: Mapping[str, Array], group: Group) -> Path:
    """Write a checkpoint; every rank of the world calls it.

    Parameters
    ----------
    root : the directory that holds the run's checkpoints; made when missing.
    step : the last step that is in it.
    state : plain numbers, strings, lists and dicts of this rank.
    arrays : this rank's arrays by name.
    group : all ranks of the world.

    Returns
    -------
    The directory, whole on return.
    """
    whole = root / f"step-{step:06d}"
    partial = whole.with_name(whole.name + ".partial")
    if group.rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    group.barrier()
    write_file(rank_file(partial, group.rank), state, arrays)
    group.barrier()
    if group.rank == 0:
        _publish(partial, whole)
    group.barrier()
    return whole


def find(path: Path) -> Path:
    """Find a whole checkpoint: `path` itself, or the newest of the run or directory it names.

    Raises
    ------
    ConfigError : there is none; the text is one line.
    """
    if _WHOLE.fullmatch(path.name) and path.is_dir():
        return path
    for root in (path / "checkpoints", path):
        latest, whole = root / "latest", _whole(root)
        if latest.is_file() and root / latest.read_text().strip() in whole:
            return root / latest.read_text().strip()
        if whole:  # killed between the two renames
            return whole[-1]
    raise ConfigError(
        f"--resume {path}: no whole checkpoint there; name a run directory, or a step-NNNNNN in it"
    )


def load(checkpoint: Path, rank: int) -> tuple[State, dict[str, Array]]:
    """Read one rank's share.

    Raises
    ------
    ConfigError : the file is missing, cut short or changed since it was written.
    """
    path = rank_file(checkpoint, rank)
    content = _read(path)
    header, base = _header(content, path)
    arrays: dict[str, Array] = {}
    for name, dtype, shape, offset, checksum in header["arrays"]:
        count = math.prod(shape)
        raw = content[base + offset : base + offset + count * np.dtype(dtype).itemsize]
        if zlib.crc32(raw) != checksum:
            raise ConfigError(f"checkpoint file {path}: {name} is cut short or has changed")
        arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
    return header["state"], arrays


def load_state(checkpoint: Path, rank: int) -> State:
    """Read one rank's state without its arrays; errors are those of `load`."""
    path = rank_file(checkpoint, rank)
    header, _ = _header(_read(path), path)
    state: State = header["state"]
    return state


def write_file(path: Path, state: State, arrays: Mapping[str, Array]) -> None:
    """Write one file under a temporary name, force it to disk, and give it its name."""
    header, parts = _encode(state, arrays)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(_PREFIX.pack(MAGIC, len(header), zlib.crc32(header)) + header)
        for part in parts:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            file.write(part.data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def rank_file(checkpoint: Path, rank: int) -> Path:
    """Name the file of a rank."""
    return checkpoint / f"rank-{rank:05d}.ckpt"


def _encode(state: State, arrays: Mapping[str, Array]) -> tuple[bytes, list[Array]]:
    table: list[list[Any]] = []
    parts: list[Array] = []
    offset = 0
    for name, array in arrays.items():
        part = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        table.append([name, part.dtype.str, list(part.shape), offset, zlib.crc32(part.data)])
        parts.append(part)
        offset += _aligned(part.nbytes)
    return msgpack.packb({"state": state, "arrays": table}), parts


def _read(path: Path) -> memoryview:
    try:
        return memoryview(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"checkpoint file {path}: {error.strerror}") from None


def _header(content: memoryview, path: Path) -> tuple[dict[str, Any], int]:
    """Read the header, and the offset of the first array."""
    start = _PREFIX.size
    if len(content) < start or content[: len(MAGIC)] != MAGIC:
        raise ConfigError(f"checkpoint file {path}: does not begin with {MAGIC.decode()}")
    _, size, checksum = _PREFIX.unpack_from(content)
    raw = content[start : start + size]
    if zlib.crc32(raw) != checksum:
        raise ConfigError(f"checkpoint file {path}: its header is cut short or has changed")
    return msgpack.unpackb(raw), _aligned(start + size)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _publish(partial: Path, whole: Path) -> None:
    """Make the directory visible as whole, then point `latest` at it."""
    _sync_directory(partial)
    shutil.rmtree(whole, ignore_errors=True)  # of an earlier run through the same step
    partial.rename(whole)
    temporary = whole.with_name("latest.tmp")
    with temporary.open("w") as file:
        file.write(whole.name + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(whole.with_name("latest"))
    _sync_directory(whole.parent)


def _sync_directory(path: Path) -> None:
    """Force the names in a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole(root: Path) -> list[Path]:
    """List the whole checkpoints of a directory in the order of their steps."""
    found = [path for path in root.glob("step-*") if _WHOLE.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))
