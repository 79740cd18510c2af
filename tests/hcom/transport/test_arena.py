"""An arena: what it gives and takes back, that peers map it, and that it leaves nothing behind."""

import gc
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hcom.errors import HcomError
from hcom.transport.arena import RESERVED_BYTES, Arena, ArenaName
from hcom.transport.layout import HEADER_BYTES, PAGE, PID

SMALL = 64 * PAGE
CAPACITY = SMALL - HEADER_BYTES
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def arena():
    made = Arena.create(SMALL)
    yield made
    os.close(made.name.file)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_bytes(arena):
    """Bytes of memory that the arena's file takes."""
    return os.fstat(arena.name.file).st_blocks * 512


def test_allocations_are_whole_pages_apart_from_each_other_and_from_the_header(arena):
    offsets = [arena.allocate(nbytes) for nbytes in (1, PAGE, PAGE + 1, 100)]
    assert offsets == [HEADER_BYTES + PAGE * n for n in (0, 1, 2, 4)]
    assert arena.address % PAGE == 0


def test_a_full_arena_says_what_was_asked_for_and_stays_usable(arena):
    first = arena.allocate(CAPACITY - PAGE)
    with pytest.raises(HcomError, match=f"no room for {2 * PAGE} bytes .* of {SMALL} bytes"):
        arena.allocate(2 * PAGE)
    assert arena.allocate(PAGE) == SMALL - PAGE
    arena.release(first)
    assert arena.allocate(CAPACITY - PAGE) == first


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_neighbours_that_are_released_in_any_order_become_one_piece(arena, order):
    third = CAPACITY // 3 // PAGE * PAGE
    offsets = [arena.allocate(third), arena.allocate(third), arena.allocate(CAPACITY - 2 * third)]
    for number in order:
        arena.release(offsets[number])
    assert arena.allocate(CAPACITY) == HEADER_BYTES


def test_a_hole_is_used_again_and_does_not_move_its_neighbours(arena):
    left, hole, right = (arena.allocate(3 * PAGE) for _ in range(3))
    arena.memory[left : left + 4] = b"left"
    arena.memory[right : right + 5] = b"right"
    arena.release(hole)
    assert arena.allocate(4 * PAGE) > right  # does not fit in the hole
    assert arena.allocate(3 * PAGE) == hole
    assert arena.memory[left : left + 4] == b"left"
    assert arena.memory[right : right + 5] == b"right"


def test_released_pages_come_back_as_zeros_and_their_memory_goes_to_the_system(arena):
    offset = arena.allocate(32 * PAGE)
    arena.memory[offset : offset + 32 * PAGE] = b"x" * (32 * PAGE)
    held = resident_bytes(arena)
    arena.release(offset)
    assert resident_bytes(arena) == held - 32 * PAGE
    again = arena.allocate(32 * PAGE)
    assert again == offset
    assert arena.memory[again : again + 32 * PAGE] == bytes(32 * PAGE)


def test_a_piece_is_released_once_only(arena):
    offset = arena.allocate(PAGE)
    arena.release(offset)
    with pytest.raises(KeyError):
        arena.release(offset)
    with pytest.raises(KeyError):
        arena.release(offset + PAGE)


def test_an_arena_of_many_gigabytes_takes_only_what_is_touched():
    arena = Arena.create()
    offset = arena.allocate(RESERVED_BYTES // 2)
    end = offset + RESERVED_BYTES // 2
    arena.memory[end - 1] = 1
    assert os.fstat(arena.name.file).st_size == RESERVED_BYTES
    assert resident_bytes(arena) <= 4 * PAGE
    os.close(arena.name.file)


def test_the_header_holds_the_pid_and_is_never_given_out(arena):
    assert int.from_bytes(arena.memory[PID : PID + 8], "little") == os.getpid()
    assert arena.allocate(CAPACITY) >= HEADER_BYTES


def test_a_name_travels_in_24_bytes():
    name = ArenaName(2**31 + 5, 7, RESERVED_BYTES)
    assert len(name.to_bytes()) == 24
    assert ArenaName.from_bytes(name.to_bytes()) == name


PEER = """
import sys
from hcom.transport.arena import Arena, ArenaName

arena = Arena.open(ArenaName.from_bytes(bytes.fromhex(sys.argv[1])))
offset = int(sys.argv[2])
assert arena.memory[offset : offset + 5] == b"hello"
arena.memory[offset : offset + 5] = b"world"
"""


def test_another_process_reads_and_writes_the_same_memory(arena):
    offset = arena.allocate(PAGE)
    arena.memory[offset : offset + 5] = b"hello"
    command = [sys.executable, "-c", PEER, arena.name.to_bytes().hex(), str(offset)]
    subprocess.run(command, check=True, timeout=60, cwd=ROOT)
    assert arena.memory[offset : offset + 5] == b"world"


def test_a_second_map_in_this_process_is_the_same_memory_at_another_address(arena):
    peer = Arena.open(arena.name)
    assert peer.address != arena.address
    peer.memory[HEADER_BYTES] = 42
    assert arena.memory[HEADER_BYTES] == 42


def test_an_arena_of_a_process_that_has_ended_cannot_be_opened():
    ended = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True, text=True)
    pid = int(ended.stdout)
    with pytest.raises(HcomError, match=f"cannot map the memory of process {pid}"):
        Arena.open(ArenaName(pid, 3, SMALL))


def test_an_arena_has_no_name_in_the_file_system_and_is_not_inherited(arena):
    path = Path(f"/proc/self/fd/{arena.name.file}").readlink()
    assert str(path).startswith("/memfd:hcom")
    assert not path.with_name("memfd:hcom").exists()
    assert not os.get_inheritable(arena.name.file)


def test_opening_a_peers_arena_keeps_no_file_open(arena):
    gc.collect()  # maps of other tests
    before = open_files()
    peers = [Arena.open(arena.name) for _ in range(5)]
    # A mmap object holds a duplicate of the file it was made from.
    assert open_files() <= before + len(peers)
    del peers
    gc.collect()
    assert open_files() == before


# Arrays in the arena


def test_an_array_lives_in_the_arena_at_its_own_page(arena):
    x = arena.empty((3, 5), np.dtype(np.float32))
    assert (x.shape, x.dtype, x.flags.c_contiguous) == ((3, 5), np.float32, True)
    offset = x.ctypes.data - arena.address
    assert offset == HEADER_BYTES
    x[...] = 7
    assert np.frombuffer(arena.memory, np.float32, 15, offset).tolist() == [7.0] * 15


def test_an_arrays_pages_are_kept_while_any_view_of_it_is(arena):
    x = arena.empty((CAPACITY,), np.dtype(np.uint8))
    view = x[10:20].reshape(2, 5)
    del x
    gc.collect()
    with pytest.raises(HcomError, match="no room"):
        arena.allocate(1)
    del view
    gc.collect()
    assert arena.allocate(CAPACITY) == HEADER_BYTES


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_arrays_of_one_or_no_element_have_their_shape(arena, shape):
    x = arena.empty(shape, np.dtype(np.int64))
    assert x.shape == shape
    other = arena.empty(shape, np.dtype(np.int64))
    assert x.ctypes.data != other.ctypes.data


def test_a_map_is_shared(arena):
    assert isinstance(arena.memory, mmap.mmap)
    with Path("/proc/self/maps").open() as maps:
        flags = [line.split()[1] for line in maps if "/memfd:hcom" in line]
    assert flags
    assert all(flag == "rw-s" for flag in flags)
