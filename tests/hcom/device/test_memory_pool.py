import gc
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcom.device.memory import MemoryPool, size_class

MEBIBYTE = 1 << 20


@pytest.fixture
def pool():
    return MemoryPool()


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("shape", [(), (0,), 5, np.int64(5), (3, 7), (2, 0, 4), (1000, 1000)])
@pytest.mark.parametrize("dtype", [np.float32, "int64", np.uint8, np.dtype("float16")])
def test_arrays_are_aligned_contiguous_and_writable(pool, shape, dtype):
    array = pool.empty(shape, dtype)
    assert array.shape == np.empty(shape).shape
    assert array.dtype == np.dtype(dtype)
    assert address(array) % 64 == 0
    assert array.flags.c_contiguous
    assert array.flags.aligned
    array[...] = 1


def test_zeros_are_zero_in_a_used_block_too(pool):
    pool.empty((64,)).fill(np.nan)
    assert not pool.zeros((64,)).any()


def test_a_block_is_used_again_for_any_shape_of_its_class(pool):
    first = pool.empty((128, 64))
    place = address(first)
    del first
    assert address(pool.empty((64, 126))) == place


def test_a_block_stays_out_while_a_view_of_its_array_lives(pool):
    array = pool.empty((32, 32))
    place, view = address(array), array.T[3:].reshape(-1)[1:]
    view = np.asarray(array[5:])[2:]
    view.fill(7)
    del array
    other = pool.empty((32, 32))
    other.fill(0)
    assert address(other) != place
    assert (view == 7).all()
    assert pool.live_bytes == 2 * 32 * 32 * 4
    del view, other
    assert pool.live_bytes == 0


def test_a_memoryview_keeps_the_block_out(pool):
    held = memoryview(pool.empty((8,), np.uint8))
    assert pool.live_bytes == 8
    held.release()
    assert pool.live_bytes == 0


def test_live_and_peak_count_the_bytes_asked_for_not_the_blocks(pool):
    first = pool.empty((3,), np.uint8)
    second = pool.empty((1001,), np.float32)
    del first
    third = pool.empty((5,), np.uint8)
    assert pool.live_bytes == 4004 + 5
    assert pool.peak_bytes == 4004 + 5
    del second
    assert (pool.live_bytes, pool.peak_bytes) == (5, 4009)
    pool.reset_peak()
    assert pool.peak_bytes == third.nbytes


def test_an_array_in_a_reference_cycle_returns_with_the_collector(pool):
    holder = [pool.empty((10,), np.uint8)]
    holder.append(holder)
    del holder
    gc.collect()
    assert pool.live_bytes == 0


@pytest.mark.parametrize("shape", [(-1,), -4, (2, -3), (-2, -3)])
def test_a_negative_dimension_is_refused_and_not_counted(pool, shape):
    with pytest.raises(ValueError, match="cannot hold an array of shape"):
        pool.empty(shape)
    assert pool.live_bytes == pool.peak_bytes == 0


def test_a_type_of_python_objects_is_refused(pool):
    with pytest.raises(ValueError, match="type object"):
        pool.empty((2,), object)


@given(st.integers(0, 1 << 40))
def test_size_classes_hold_the_size_and_waste_at_most_a_quarter(nbytes):
    size = size_class(nbytes)
    assert size >= max(nbytes, 64)
    assert size % 64 == 0
    assert size_class(size) == size
    assert size_class(nbytes + 1) >= size
    if nbytes > 256:
        assert size < nbytes * 1.25


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5000)), max_size=60))
def test_live_arrays_never_share_memory_and_the_count_is_exact(steps):
    pool, live, peak = MemoryPool(), [], 0
    for number, (action, size) in enumerate(steps):
        if action == 0 and live:
            live.pop(size % len(live))
        else:
            array = pool.empty((size,), np.int32)
            array.fill(number)
            live.append((number, array))
        bytes_now = sum(array.nbytes for _, array in live)
        peak = max(peak, bytes_now)
        array = None
        assert (pool.live_bytes, pool.peak_bytes) == (bytes_now, peak)
    assert all((array == number).all() for number, array in live)


def test_a_second_thread_may_allocate_and_free_at_once(pool):
    faults = []

    def work(mark):
        rng = np.random.default_rng(mark)
        live = []
        for size in rng.integers(1, 3000, 3000):
            array = pool.empty((int(size),), np.int64)
            array.fill(mark)
            live.append(array)
            if len(live) > 20:
                array = live.pop(int(size) % 20)
                faults.extend([mark] if (array != mark).any() else [])

    threads = [threading.Thread(target=work, args=(mark,)) for mark in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert pool.live_bytes == 0


def test_a_step_that_repeats_faults_no_new_pages(pool):
    def step():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        arrays = [pool.empty((MEBIBYTE // 4,)) for _ in range(8)]
        for array in arrays:
            array.fill(1)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    first = step()
    assert first > 1000  # 8 MiB in pages of 4 KiB
    assert step() < first / 20


def test_trimmed_memory_is_not_used_again(pool):
    first = pool.empty((MEBIBYTE,))
    del first
    pool.trim()
    assert pool.live_bytes == 0
    assert not pool._free
    assert pool.empty((MEBIBYTE,)).size == MEBIBYTE


def test_an_array_outlives_its_pool():
    array = MemoryPool().zeros((100, 100))
    gc.collect()
    view = array[50:]
    del array
    view += 3
    assert (view == 3).all()


def test_arrays_that_live_at_the_end_of_the_interpreter_do_no_harm():
    program = (
        "import sys, numpy as np\n"
        "from hcom.device import current\n"
        "kept = current().memory.empty((1000, 1000)); kept.fill(1)\n"
        "cycle = [kept[2:]]; cycle.append(cycle)\n"
        "sys.modules['held'] = kept[5:]\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
