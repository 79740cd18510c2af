"""Asynchronous operations: their handles, their order, and the thread that carries them out."""

import gc
import time

import numpy as np
import pytest

from hcom.device import current

pytestmark = pytest.mark.usefixtures("hcom_world")


def test_a_handle_gives_what_the_blocking_call_gives(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    x = np.arange(1000.0) + rank
    work = hcom.all_reduce(x, async_op=True)
    assert np.array_equal(work.wait(), np.arange(1000.0) * size + size * (size - 1) / 2)
    assert work.wait() is work.wait()
    assert work.is_completed()
    assert work.exception() is None
    gathered = hcom.all_gather(x[:1], async_op=True)
    assert gathered.wait().tolist() == list(range(size))
    nothing = hcom.reduce(x, 0, async_op=True).wait()
    assert (nothing is None) == (rank != 0)
    assert hcom.scatter(np.ones((size, 2)) if rank == 0 else None, async_op=True).wait().sum() == 2


def test_many_operations_under_way_keep_their_order(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    arrays = [np.full(1 + 37 * number % 5000, rank + number) for number in range(200)]
    works = [hcom.all_reduce(x, async_op=True) for x in arrays]
    for number in reversed(range(200)):
        assert (works[number].wait() == size * number + size * (size - 1) // 2).all()


def test_a_blocking_call_runs_behind_what_is_under_way(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    x = np.full(500_000, 1.0)
    work = hcom.all_reduce(x, out=x, async_op=True)
    assert (hcom.all_reduce(x) == size * size).all()
    assert work.is_completed()


def test_more_operations_than_the_ring_holds_all_complete(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    works = [hcom.all_reduce(np.array([number]), async_op=True) for number in range(3000)]
    assert [work.wait().item() for work in works] == [size * number for number in range(3000)]


@pytest.mark.ranks(2, 4)
def test_two_groups_used_in_opposite_order_finish(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    groups = [hcom.new_group(range(size)), hcom.new_group(range(size))]
    for _ in range(20):
        order = groups if rank % 2 else groups[::-1]
        works = [(group, group.all_reduce(np.ones(50_000), async_op=True)) for group in order]
        for group in groups:
            result = next(work for owner, work in works if owner is group).wait()
            assert (result == size).all()


@pytest.mark.ranks(4)
def test_fifty_overlapping_groups_in_random_order_give_right_numbers(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    shared, own = np.random.default_rng(1), np.random.default_rng(rank)
    members = [
        sorted(shared.choice(size, int(shared.integers(1, size + 1)), replace=False).tolist())
        for _ in range(50)
    ]
    groups = [hcom.new_group(ranks) for ranks in members]
    mine = [number for number, ranks in enumerate(members) if rank in ranks]
    works = {
        number: groups[number].all_reduce(np.full(200, number + rank), async_op=True)
        for number in own.permutation(mine).tolist()
    }
    for number in own.permutation(mine).tolist():
        expected = sum(number + member for member in members[number])
        assert (works[number].wait() == expected).all()


@pytest.mark.ranks(2, 4)
def test_data_is_complete_exactly_when_the_handle_says_so(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    if rank == 0:
        time.sleep(0.3)
        hcom.send(np.full(8 << 20, 3, np.uint8), 1)
    elif rank == 1:
        out = np.zeros(8 << 20, np.uint8)
        work = hcom.recv(out, 0, async_op=True)
        assert not work.is_completed()
        while not work.is_completed():
            time.sleep(0.001)
        assert (out == 3).all()
        assert work.wait() is out


@pytest.mark.ranks(2, 4)
def test_a_handle_keeps_its_buffer_alive(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    if rank == 0:
        hcom.send(np.arange(300_000), 1, async_op=True)
        gc.collect()
        noise = [np.full(300_000, -1) for _ in range(20)]
        hcom.send(np.zeros(1), 1, tag=1)
        assert noise
    elif rank == 1:
        time.sleep(0.1)
        # The first message is still under way while the second one is taken.
        hcom.recv(np.empty(300_000, np.int64), 0)
        hcom.recv(np.zeros(1), 0, tag=1)


@pytest.mark.ranks(2, 4)
def test_messages_under_way_match_by_order_not_by_who_waits_first(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    if rank > 1:
        return
    a, b, c = (np.zeros(40_000) for _ in range(3))
    ones = np.ones(40_000)
    if rank == 0:
        works = [
            hcom.send(ones, 1, async_op=True),
            hcom.recv(b, 1, async_op=True),
            hcom.recv(c, 1, async_op=True),
        ]
    else:
        works = [
            hcom.send(2 * ones, 0, async_op=True),
            hcom.send(3 * ones, 0, async_op=True),
            hcom.recv(a, 0, async_op=True),
        ]
    for work in works[::-1]:
        work.wait()
    sums = (b[0], c[0]) if rank == 0 else (a[0],)
    assert sums == ((2, 3) if rank == 0 else (1,))


@pytest.mark.ranks(2, 4)
def test_a_mismatch_shows_on_the_handle_of_every_rank(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    group = hcom.new_group(range(size))
    work = group.all_reduce(np.ones(5 if rank else 6), async_op=True)
    later = group.all_reduce(np.ones(5), async_op=True)
    with pytest.raises(hcom.MismatchError) as caught:
        work.wait()
    for part in (r"rank 0: all_reduce\(bytes=48", r"all_reduce\(bytes=40"):
        caught.match(part)
    assert isinstance(work.exception(), hcom.MismatchError)
    with pytest.raises(hcom.HcomError):
        later.wait()
    hcom.barrier()


@pytest.mark.ranks(2, 4)
def test_a_wait_that_cannot_end_is_told_as_a_blocking_one(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    group = hcom.new_group(range(size), hcom.CommunicatorConfig(exec_timeout=0))
    work = group.recv(np.zeros(3), (rank + 1) % size, async_op=True)
    with pytest.raises(hcom.NotifyTimeoutError, match="every rank of the job waits"):
        work.wait()


@pytest.mark.ranks(2, 4)
def test_an_operation_overlaps_compute_on_the_device_clock(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    group = hcom.new_group(range(size))
    x = np.ones(1_000_000, np.float32)
    hcom.barrier()
    device = current()
    top = float(hcom.all_reduce(np.array([device.clock()]), "max").item()) + 1.0
    device.align(top)
    group.all_reduce(x)
    alone = device.clock() - top
    device.align(top + 2.0)
    work = group.all_reduce(x, async_op=True)
    device.join(top + 2.0 + 0.25 * alone)  # computes meanwhile
    work.wait()
    assert device.clock() == pytest.approx(top + 2.0 + alone, rel=1e-9)
    device.align(top + 4.0)
    work = group.all_reduce(x, async_op=True)
    device.join(top + 4.0 + 3 * alone)
    work.wait()
    assert device.clock() == pytest.approx(top + 4.0 + 3 * alone, rel=1e-9)


def test_a_bound_call_runs_again_on_the_same_arrays(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    x, out = np.zeros(10), np.zeros(10)
    call = hcom.bind("all_reduce", x, out=out)
    for number in range(5):
        x[:] = number + rank
        assert call() is out
        assert (out == size * number + size * (size - 1) / 2).all()
    with pytest.raises(ValueError, match="bind knows"):
        hcom.bind("scatter", x)
    with pytest.raises(TypeError, match="numpy array"):
        hcom.bind("all_gather", [1.0])
