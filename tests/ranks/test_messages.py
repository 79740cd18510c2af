"""Sends and receives: matching, rendezvous, batches, and both ways that long data takes."""

import numpy as np
import pytest

from hcom.executor import tables

pytestmark = [pytest.mark.usefixtures("hcom_world"), pytest.mark.ranks(2, 4)]

SIZES = [0, 1, 1024, 1025, 100_000, 3_000_000]  # floats: inline up to 1,024


@pytest.fixture(params=["read across", "streamed"])
def group(hcom_world, request):
    """A group of all ranks whose long messages go the one way or the other."""
    made = hcom_world.new_group(range(hcom_world.rank_size()))
    made._session.words[tables.CROSS_MEMORY] = request.param == "read across"
    return made


@pytest.mark.parametrize("size", SIZES)
def test_a_ring_of_send_recv_shifts_the_data(group, size):
    rank, p = group.rank, group.rank_size
    out = np.full(size, -1, np.float32)
    result = group.send_recv(np.full(size, rank, np.float32), (rank + 1) % p, out, (rank - 1) % p)
    assert result is out
    assert (out == (rank - 1) % p).all()


def test_tags_choose_the_message_and_equal_tags_keep_their_order(group):
    if group.rank == 0:
        sent = [("send", np.full(n, n), 1, tag) for n, tag in ((1, 7), (5000, 8), (2, 7))]
        group.batch_send_recv(sent)
    elif group.rank == 1:
        last, first, middle = np.zeros(2, int), np.zeros(1, int), np.zeros(5000, int)
        group.recv(middle, 0, tag=8)
        group.batch_send_recv([("recv", first, 0, 7), ("recv", last, 0, 7)])
        assert (first.item(), middle[0], last.tolist()) == (1, 5000, [2, 2])


def test_both_ends_may_list_receives_first(group):
    rank, p = group.rank, group.rank_size
    for shift in range(1, p):
        to, source = (rank + shift) % p, (rank - shift) % p
        out = np.zeros(20_000)
        x = np.full(20_000, rank + shift, np.float64)
        group.batch_send_recv([("recv", out, source, 0), ("send", x, to, 0)])
        assert (out == (source + shift)).all()


def test_a_batch_of_hundreds_with_sizes_out_of_order_completes(group):
    rank, p = group.rank, group.rank_size
    sizes = [1, 70_000, 8, 1000, 300_000, 0, 2048, 5]
    messages, received = [], []
    for number in range(300):
        size, shift = sizes[number % len(sizes)] // (1 + number % 3), 1 + number % (p - 1 or 1)
        to, source = (rank + shift) % p, (rank - shift) % p
        out = np.zeros(size, np.int64)
        received.append((out, number * 10 + source))
        order = [
            ("send", np.full(size, number * 10 + rank), to, number),
            ("recv", out, source, number),
        ]
        messages += order[:: 1 if rank % 2 else -1]
    group.batch_send_recv(messages[::-1] if rank == 0 else messages)
    for out, expected in received:
        assert (out == expected).all()


def test_a_rank_sends_to_itself_within_one_batch_only(group):
    rank = group.rank
    out = np.zeros(3)
    group.batch_send_recv([("send", np.arange(3.0), rank, 1), ("recv", out, rank, 1)])
    assert out.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=f"rank {rank} has a send with itself"):
        group.send(np.zeros(3), rank)


def test_unequal_ends_raise_on_both_and_later_messages_still_match(group, hcom_world):
    if group.rank == 0:
        with pytest.raises(hcom_world.MismatchError, match=r"3 x float32.*receives 5 x float32"):
            group.send(np.ones(3, np.float32), 1)
        group.send(np.ones(4, np.float32), 1)
    elif group.rank == 1:
        out = np.zeros(5, np.float32)
        with pytest.raises(hcom_world.MismatchError, match="sends 3 x float32, 12 bytes"):
            group.recv(out, 0)
        assert not out.any()
        assert group.recv(out[:4], 0).tolist() == [1, 1, 1, 1]


def test_a_strided_receive_leaves_what_lies_between(group):
    if group.rank == 0:
        group.send(np.arange(10.0)[::2], 1)
    elif group.rank == 1:
        whole = np.full(10, -1.0)
        group.recv(whole[1::2], 0)
        assert whole.tolist() == [-1, 0, -1, 2, -1, 4, -1, 6, -1, 8]


def test_wrong_messages_are_refused_before_anything_is_sent(group):
    x = np.zeros(2)
    for message, error in (
        (("put", x, 0, 0), "kind"),
        (("send", x, 99, 0), "dst must be a rank of the group"),
        (("recv", x, -1, 0), "src must be a rank of the group"),
    ):
        with pytest.raises(ValueError, match=error):
            group.batch_send_recv([message])
    for message, error in (
        (("send", [1.0], 0, 0), "x must be a numpy array, not list"),
        (("send", x, 0, "a"), "tag must be an integer"),
        ("send", "a message is"),
    ):
        with pytest.raises(TypeError, match=error):
            group.batch_send_recv([message])
    group.barrier()


def test_a_refused_batch_leaves_no_trace_in_the_order_of_messages(group):
    rank, p = group.rank, group.rank_size
    x, out = np.full(3, rank), np.zeros(3, np.int64)
    to, source = (rank + 1) % p, (rank - 1) % p
    with pytest.raises(ValueError, match="tag must fit in 64 bits"):
        group.batch_send_recv([("send", x, to, 0), ("recv", out, source, 2**70)])
    assert (group.send_recv(x, to, out, source) == source).all()
