"""Calls that have gone wrong in other libraries: strides, counts, types, groups, matching."""

import gc
import re
import resource
import time

import numpy as np
import pytest

from hcom.transport import layout

pytestmark = pytest.mark.usefixtures("hcom_world")

several = pytest.mark.ranks(2, 4)


@pytest.fixture
def group(hcom_world):
    """A group of all ranks that has not communicated yet, and that a test may break."""
    return hcom_world.new_group(range(hcom_world.rank_size()))


# Shapes and strides


@several
def test_a_column_of_a_matrix_gives_its_own_values_and_leaves_its_neighbours(group):
    """A view of stride 2 once sent the storage that lies behind it."""
    rank, size = group.rank, group.rank_size

    def matrix():
        return np.array([[rank, 0], [rank, rank]])

    a = matrix()
    assert group.broadcast(a[:, 0]).tolist() == [0, 0]
    group.broadcast(a[:, 0], out=a[:, 0])
    assert a.tolist() == [[0, 0], [0, rank]]

    a = matrix() + 1
    total = group.reduce(a[:, 0])
    assert total is None if rank else total.tolist() == [size * (size + 1) // 2] * 2
    assert np.array_equal(a, matrix() + 1)

    wide = np.array([[r, 0] for r in range(size)]) if rank == 0 else None
    out = np.full((1, 3), -1)
    group.scatter(wide[:, 0] if rank == 0 else None, out=out[0, 1:2])
    assert out.tolist() == [[-1, rank, -1]]


@several
def test_a_scatter_of_strided_rows_delivers_every_other_value(group):
    every_other = np.linspace(0, 5, 6, dtype=np.float32)[::2]
    x = np.broadcast_to(every_other, (group.rank_size, 3)) if group.rank == 0 else None
    out = np.zeros((1, 3), np.float32)
    group.scatter(x, out=out)
    assert out.tolist() == [[0, 2, 4]]


@several
def test_a_transposed_array_is_gathered_element_by_element(group):
    rank, size, root = group.rank, group.rank_size, group.rank_size - 1
    x = np.arange(10, dtype=np.float32).reshape(2, 5).T + 100 * rank
    assert x.flags.f_contiguous
    gathered = group.gather(x, root)
    if rank == root:
        for r in range(size):
            for i in range(5):
                for j in range(2):
                    assert gathered[5 * r + i, j] == 5 * j + i + 100 * r
    y = np.arange(6.0).reshape(3, 2).T
    total = group.all_reduce(y)
    assert all(total[i, j] == size * y[i, j] for i in range(2) for j in range(3))
    z = y.copy(order="F")
    assert group.all_reduce(z, out=z) is z
    assert np.array_equal(z, total)


@several
def test_the_gradient_of_a_gather_may_have_stride_0(group):
    size = group.rank_size
    seed = np.array(1.0)
    gradient = np.broadcast_to(seed, (2 * size, 3))  # of a sum: one number everywhere
    assert np.array_equal(group.reduce_scatter(gradient), np.full((2, 3), float(size)))
    assert seed == 1.0


@several
def test_a_0_d_array_is_reduced_as_such_and_refused_where_an_axis_is_needed(group):
    x = np.array(3.25)
    for result in (group.all_reduce(x), group.broadcast(x, out=np.array(0.0))):
        assert result.shape == ()
    assert group.all_reduce(x) == 3.25 * group.rank_size
    for call in (group.all_gather, group.reduce_scatter, group.all_to_all, group.gather):
        with pytest.raises(ValueError, match="0-d array"):
            call(x)
    group.barrier()


# Counts


def calls_told(error):
    """What a mismatch says that each rank called, of those that had called when it was found."""
    lines = re.findall(r"^  ranks? ([\d, ]+): (.*)$", str(error), re.MULTILINE)
    told = {int(rank): call for ranks, call in lines for rank in ranks.split(", ")}
    return {rank: call for rank, call in told.items() if call != "(not called yet)"}


@several
@pytest.mark.parametrize(
    ("here", "there"),
    [((409_600,), (409_598,)), ((1,), (2,)), ((100, 2560), (200, 2560)), ((4096,), (1,))],
)
def test_different_counts_name_the_call_its_number_and_both_sizes_on_every_rank(
    hcom_world, group, here, there
):
    group.all_reduce(np.ones(3, np.float32))
    x = np.ones(here if group.rank == 0 else there, np.float32)
    with pytest.raises(hcom_world.MismatchError) as caught:
        group.all_reduce(x)
    caught.match(r"EI0005: .* operation 2 of this communicator.*most likely the program is wrong")
    calls = calls_told(caught.value)
    assert len(set(calls.values())) == 2
    for rank, call in calls.items():
        nbytes = 4 * int(np.prod(here if rank == 0 else there))
        assert call.startswith(f"all_reduce(bytes={nbytes}, type=fp32, op=sum")
    assert (x == 1).all()


@several
def test_an_uneven_all_gather_names_the_sizes_and_the_v_form_does_it(hcom_world, group):
    rank, size = group.rank, group.rank_size
    counts = [2, 3, 5, 7][:size]
    x = np.full(counts[rank], rank, np.int32)
    with pytest.raises(hcom_world.MismatchError) as caught:
        group.all_gather(x)
    calls = calls_told(caught.value)
    assert len(calls) >= 2
    for r, call in calls.items():
        assert call.startswith(f"all_gather(bytes={4 * counts[r] * size}, type=int32")
    result = hcom_world.all_gather_v(x, counts)
    assert result.tolist() == np.repeat(np.arange(size), counts).tolist()


@several
@pytest.mark.parametrize("expected", [2, 3])
def test_a_receive_of_more_than_was_sent_raises_on_both_with_the_bytes(hcom_world, group, expected):
    if group.rank == 0:
        with pytest.raises(hcom_world.MismatchError, match=rf"4 bytes.*, {4 * expected} bytes"):
            group.send(np.ones(1, np.float32), 1)
    elif group.rank == 1:
        out = np.full(expected, -1, np.float32)
        with pytest.raises(hcom_world.MismatchError, match=rf"{4 * expected} bytes.*, 4 bytes"):
            group.recv(out, 0)
        assert (out == -1).all()
    group.barrier()


# Arguments


@pytest.mark.ranks(1)
def test_alone_every_call_gives_what_it_was_given(hcom_world, group):
    x = np.arange(6.0).reshape(3, 2)
    for op in ("sum", "prod", "max", "min", "avg"):
        assert np.array_equal(group.all_reduce(x, op), x)
        assert np.array_equal(group.reduce(x, 0, op), x)
        assert np.array_equal(group.reduce_scatter(x, op), x)
        assert np.array_equal(group.reduce_scatter_v(x, [3], op), x)
    for result in (
        group.broadcast(x),
        group.scatter(x),
        group.gather(x),
        group.all_gather(x),
        group.all_gather_v(x, [3]),
        group.all_to_all(x),
        group.all_to_all_v(x, [3], [3]),
        group.all_to_all_vc(x, [[3]]),
        group.all_reduce(x, async_op=True).wait(),
        hcom_world.bind("all_reduce", x)(),
    ):
        assert result.dtype == x.dtype
        assert np.array_equal(result, x)
        assert not np.shares_memory(result, x)
    group.barrier()
    assert group.split(0).all_reduce(x).shape == (3, 2)
    assert group.split(None) is None


@several
def test_equal_matrices_with_negative_numbers_scatter_their_exact_sums(group):
    rank, size = group.rank, group.rank_size
    rows = 5 * size
    m = np.arange(20 * rows, dtype=np.int32).reshape(rows, 20) - 100
    assert np.array_equal(group.reduce_scatter(m), size * m[5 * rank : 5 * rank + 5])


@several
@pytest.mark.parametrize("rows", [1, 3])
def test_a_wrong_output_at_the_root_is_refused_there_and_the_next_call_goes_through(group, rows):
    rank, size = group.rank, group.rank_size
    x = np.full((1, 4), rank)
    if rank == 0:
        wrong = np.zeros((rows + size - 2, 4), int)
        with pytest.raises(ValueError, match=rf"shape \({size}, 4\), not \({rows + size - 2}, 4\)"):
            group.gather(x, out=wrong)
        with pytest.raises(ValueError, match=rf"shape \({size}, 4\), not \({size}, 5\)"):
            group.gather(x, out=np.zeros((size, 5), int))
    gathered = group.gather(x)
    assert rank or gathered[:, 0].tolist() == list(range(size))


@several
def test_swapped_arguments_are_refused_with_the_argument_and_its_type(group):
    arrays, out = [np.zeros(2)] * group.rank_size, np.zeros(2)
    with pytest.raises(TypeError, match="x must be a numpy array, not list"):
        group.reduce_scatter(arrays, out=out)
    with pytest.raises(TypeError, match="out must be a numpy array, not list"):
        group.reduce_scatter(np.zeros(2 * group.rank_size), out=arrays)
    with pytest.raises(ValueError, match="op must be one of"):
        group.all_reduce(out, np.zeros(2).tobytes())
    group.barrier()


# Types


@several
def test_bool_arrays_stay_bool(group):
    rank, size = group.rank, group.rank_size
    for value in (False, True):
        result = group.broadcast(np.array([value if rank == 0 else not value]))
        assert result.dtype == bool
        assert result.tolist() == [value]
    mask = np.array([rank == 0, rank == 1, True])
    assert group.all_gather(mask).reshape(size, 3).tolist() == [
        [r == 0, r == 1, True] for r in range(size)
    ]
    for op, one in (("max", True), ("min", False), ("sum", True), ("prod", False)):
        result = group.all_reduce(np.array([rank == 0, True, False]), op)
        assert result.dtype == bool
        assert result.view(np.uint8).tolist() == [one, 1, 0]


@several
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.int16, [-1, 2, 3, -5]),
        (np.int32, [65_536, 1_281_166, -70_000]),
        (np.uint16, [0, 65_535]),
        (np.uint32, [2**32 - 1, 7]),
        (np.uint64, [2**64 - 1, 2**53 + 1]),
        (np.int64, [-(2**63), 2**53 + 1]),
    ],
)
def test_integers_of_every_width_are_gathered_exactly(group, dtype, values):
    x = np.roll(np.array(values, dtype), group.rank)
    result = group.all_gather(x)
    assert result.dtype == dtype
    expected = np.concatenate([np.roll(np.array(values, dtype), r) for r in range(group.rank_size)])
    assert result.tolist() == expected.tolist()


@several
def test_int64_reductions_are_exact(group):
    size = group.rank_size
    x = np.array([2**40, -3]) if group.rank == 0 else np.array([2**40 + 1, 5])
    assert group.all_reduce(x).tolist() == [size * 2**40 + size - 1, 5 * (size - 1) - 3]
    assert group.all_reduce(x, "max").tolist() == [2**40 + 1, 5]
    assert group.all_reduce(x, "min").tolist() == [2**40, -3]
    power = np.array([2**9 if group.rank == 0 else 2**10 + 1, -3])
    assert group.all_reduce(power, "prod").tolist() == [2**9 * 1025 ** (size - 1), (-3) ** size]


@several
def test_different_types_are_named_in_the_output_and_between_ranks(hcom_world, group):
    size = group.rank_size
    with pytest.raises(TypeError, match="the input's type int64, not float32"):
        group.reduce_scatter(np.zeros(size, np.int64), out=np.zeros(1, np.float32))
    kind = np.float32 if group.rank == 0 else np.float64
    with pytest.raises(hcom_world.MismatchError, match=r"(?s)type=fp32.*type=fp64|fp64.*fp32"):
        group.all_reduce(np.zeros(4, kind))


# Groups


@pytest.mark.ranks(4)
def test_ranks_outside_a_group_are_told_so_and_nobody_hangs(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    upper = hcom.new_group([2, 3])
    x = np.full(3, rank)
    if rank < 2:
        with pytest.raises(hcom.HcomError, match=rf"rank {rank} is not in group .*\[2, 3\].*broad"):
            upper.broadcast(x, 1)
        with pytest.raises(hcom.HcomError, match="is not in group"):
            hcom.broadcast(x, 1, group=upper)
        assert x.tolist() == [rank] * 3
    else:
        assert upper.broadcast(x, 1).tolist() == [3] * 3
    hcom.barrier()


@several
def test_groups_that_exclude_the_caller_can_be_told_apart(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    others = [hcom.new_group([r]) for r in range(size - 1)] + [hcom.new_group([0])]
    if rank < size - 1:
        assert others[rank].all_reduce(np.ones(1)).item() == 1
    else:
        assert [group.ranks for group in others] == [(r,) for r in range(size - 1)] + [(0,)]
        assert len({group.name for group in others}) == size
        assert len({repr(group) for group in others}) == size
        for group in others:
            assert str(list(group.ranks)) in repr(group)
            with pytest.raises(hcom.HcomError, match=rf"not in group .*\[{group.ranks[0]}\]"):
                group.barrier()
    hcom.barrier()


@pytest.mark.ranks(4)
def test_the_gradient_of_a_broadcast_comes_back_to_its_source_from_every_member(hcom_world):
    rank = hcom_world.rank()
    upper = hcom_world.new_group([2, 3])
    if rank >= 2:
        y = upper.broadcast(np.full(3, float(rank)), 0)
        assert y.tolist() == [2, 2, 2]
        gradient = upper.reduce(np.ones(3), 0)  # of the loss: the sum of y on both
        assert gradient is None if rank == 3 else gradient.tolist() == [2, 2, 2]
    hcom_world.barrier()


# Messages


@pytest.mark.ranks(1)
def test_alone_a_rank_sends_to_itself_in_a_batch_only(group):
    x, out = np.arange(100_000), np.zeros(100_000, int)
    group.batch_send_recv([("recv", out, 0, 3), ("send", x, 0, 3)])
    assert np.array_equal(out, x)
    assert np.array_equal(group.send_recv(-x, 0, out, 0), -x)
    for call in (lambda: group.send(x, 0), lambda: group.recv(out, 0)):
        with pytest.raises(ValueError, match=r"rank 0 has a (send|recv) with itself"):
            call()


@several
def test_receives_take_their_own_tag_in_whatever_order_they_were_asked_for(group):
    for size in (10, 100_000):
        ones, zeros = np.full(size, -1.0), np.full(size, -1.0)
        if group.rank == 0:
            works = [
                group.send(np.ones(size), 1, tag=1, async_op=True),
                group.send(np.zeros(size), 1, tag=2, async_op=True),
            ]
        elif group.rank == 1:
            works = [
                group.recv(zeros, 0, tag=2, async_op=True),
                group.recv(ones, 0, tag=1, async_op=True),
            ]
        else:
            works = []
        for work in works:
            work.wait()
        if group.rank == 1:
            assert (ones == 1).all()
            assert (zeros == 0).all()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("nbytes", [8, 64 << 10, 64 << 20])
def test_a_batch_in_which_both_send_finishes_at_any_size(group, nbytes):
    peer = 1 - group.rank
    out = np.zeros(nbytes, np.uint8)
    x = np.full(nbytes, group.rank + 1, np.uint8)
    group.batch_send_recv([("send", x, peer, 0), ("recv", out, peer, 0)])
    assert (out == peer + 1).all()


@several
def test_a_batch_may_be_the_first_that_a_group_does(hcom_world):
    rank, size = hcom_world.rank(), hcom_world.rank_size()
    for k in range(1, size):
        group = hcom_world.new_group(range(size))
        to, source = (rank + k) % size, (rank - k) % size
        out = np.zeros(30_000)
        x = np.full(30_000, rank + 10.0 * k)
        group.batch_send_recv([("recv", out, source, 0), ("send", x, to, 0)])
        assert (out == source + 10 * k).all()


@several
def test_a_batch_of_five_is_received_as_four_and_one_with_work_between(group):
    arrays = [np.full(n, n, np.float32) for n in (1, 2, 3, 4, 5)]
    if group.rank == 0:
        group.batch_send_recv([("send", x, 1, 0) for x in arrays])
    elif group.rank == 1:
        outs = [np.zeros_like(x) for x in arrays]
        group.batch_send_recv([("recv", out, 0, 0) for out in outs[:4]])
        time.sleep(0.05)
        group.recv(outs[4], 0)
        assert [out.tolist() for out in outs] == [x.tolist() for x in arrays]


@several
def test_hundreds_of_messages_with_unequal_numbers_either_way_need_bounded_memory(group):
    rank, size = group.rank, group.rank_size
    sizes = [1, 500, 20_000, 8, 131_072]  # int64: 8 B to 1 MiB
    traffic = [
        (number % size, (number + 1 + number % 7 % (size - 1)) % size, sizes[number % len(sizes)])
        for number in range(150 * size)
        if number % size == 0 or number % 3  # rank 0 sends more than the others
    ]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    messages, expected = [], []
    for number, (src, dst, count) in enumerate(traffic):
        if src == rank:
            messages.append(("send", np.full(count, number), dst, number % 5))
        if dst == rank:
            out = np.zeros(count, np.int64)
            messages.append(("recv", out, src, number % 5))
            expected.append((out, number))
    held = sum(x.nbytes for _, x, _, _ in messages)
    group.batch_send_recv(messages)
    assert all((out == number).all() for out, number in expected)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most)
    assert grown < 1.5 * held + (64 << 20)


@several
def test_data_sent_from_an_array_that_nobody_holds_any_more_arrives(group):
    count = 4_000_000
    if group.rank == 0:
        work = group.send(np.arange(count), 1, async_op=True)
        again = np.zeros(1)
        group.recv(again, 1, tag=1)
        gc.collect()
        noise = [np.full(count, -1) for _ in range(3)]  # where the array may have been
        group.send(again, 1, tag=2)
        work.wait()
        assert noise[0][0] == -1
    elif group.rank == 1:
        group.send(np.zeros(1), 0, tag=1)
        group.recv(np.zeros(1), 0, tag=2)
        out = np.zeros(count, np.int64)
        group.recv(out, 0)
        assert np.array_equal(out, np.arange(count))


# Operations under way


@several
def test_a_barrier_comes_after_what_is_under_way(group):
    size = group.rank_size
    if group.rank == size - 1:
        time.sleep(0.2)
    x = np.ones(1_000_000)
    work = group.all_reduce(x, async_op=True)
    group.barrier()
    assert work.is_completed()
    assert (work.wait() == size).all()


@several
@pytest.mark.parametrize("call", ["all_reduce", "send_recv"])
def test_what_is_under_way_shows_that_a_rank_does_not_stand_still(group, call):
    """While a main thread waits for it: a second without a sign would end the job."""
    rank, size = group.rank, group.rank_size
    host = group._session.host
    x, out = np.ones(2_000_000), np.zeros(2_000_000)
    group.barrier()
    before = host._word(host.rank, layout.TURNS)
    if call == "all_reduce":
        work = group.all_reduce(x, out=out, async_op=True)
    else:
        work = group.send_recv(x, (rank + 1) % size, out, (rank - 1) % size, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert host._word(host.rank, layout.TURNS) > before
    assert (out == (size if call == "all_reduce" else 1)).all()


@several
def test_a_large_receive_is_whole_when_its_wait_returns(group):
    count = 32 << 20
    if group.rank == 0:
        time.sleep(0.2)
        group.send(np.full(count, 9, np.uint8), 1)
    elif group.rank == 1:
        out = np.zeros(count, np.uint8)
        work = group.recv(out, 0, async_op=True)
        assert not work.is_completed()
        assert work.wait() is out
        assert (out == 9).all()
        assert work.wait() is out
