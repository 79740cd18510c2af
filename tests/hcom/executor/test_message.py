"""Messages between ranks as threads of one process: matching, both ways of long data, faults."""

from collections import defaultdict

import numpy as np
import pytest
from thread_ranks import ThreadRanks

from hcom.batch import Batch
from hcom.device import current
from hcom.errors import MismatchError, NotifyTimeoutError, PeerLostError
from hcom.executor import tables as t
from hcom.executor.message import exchange, try_once
from hcom.statistics import Statistics
from hcom.transport import layout
from hcom.transport.doorbell import AGAIN, FAULTED

STREAM = 4096  # bytes of a stream slot
INLINE = layout.INLINE_BYTES
# Nothing, inline, just beyond, whole stream slots, and an odd number of pieces.
SIZES = [0, 1, INLINE - 1, INLINE, INLINE + 1, 3 * STREAM, 5 * STREAM + 17, 100_000]


class MessageRanks(ThreadRanks):
    """Ranks that exchange messages, each rank's in batches of its own."""

    def __init__(self, size, *, reads_across, limit=20.0):
        super().__init__(size, stream=STREAM, limit=limit)
        self.latest = [{} for _ in range(size)]
        self.statistics = Statistics()
        for session in self.sessions:
            session.words[t.CROSS_MEMORY] = reads_across

    def batch(self, rank, messages):
        made = Batch("group", self.sessions[rank], messages, self.latest[rank])
        made.depart(self.topology, 0.0)
        return made

    def complete(self, rank, messages):
        """Complete a batch on the calling thread; forget the order it stood in."""
        made = self.batch(rank, messages)
        made.run()
        made.arrive(made.start, self.statistics)

    def complete_in_turn(self, batches, seed):
        """Complete batches on this thread, a random rank's at a time, an attempt at each."""
        rng = np.random.default_rng(seed)
        left, idle = list(range(len(batches))), 0
        while left:
            number = left[rng.integers(len(left))]
            rank, batch = batches[number]
            moved, open_ones = try_once(self.sessions[rank].words, batch._table)
            idle = 0 if moved else idle + 1
            assert idle < 1000, "no message gets on"
            if open_ones == 0:
                left.remove(number)


@pytest.fixture(params=[True, False], ids=["read across", "streamed"])
def pair(request):
    made = MessageRanks(2, reads_across=request.param)
    yield made
    made.close()


@pytest.fixture(scope="module", params=[True, False], ids=["read across", "streamed"])
def four(request):
    made = MessageRanks(4, reads_across=request.param)
    yield made
    made.close()


def data(size, seed=0):
    return np.random.default_rng([size, seed]).integers(0, 256, size, np.uint8)


def test_data_of_any_size_arrives_whole(pair):
    outs = [np.full(size + 2, 255, np.uint8) for size in SIZES]

    def here(rank):
        for number, size in enumerate(SIZES):
            if rank == 0:
                pair.complete(0, [("send", data(size), 1, number)])
            else:
                pair.complete(1, [("recv", outs[number][1:-1], 0, number)])

    pair.each(here)
    for out, size in zip(outs, SIZES, strict=True):
        assert np.array_equal(out[1:-1], data(size))
        assert out[0] == out[-1] == 255


def test_both_ends_send_first_in_one_batch(pair):
    for size in SIZES:
        outs = [np.zeros(size, np.uint8) for _ in range(2)]

        def here(rank, size=size, outs=outs):
            messages = [("send", data(size, rank), 1 - rank, 0), ("recv", outs[rank], 1 - rank, 0)]
            pair.complete(rank, messages[:: 1 - 2 * rank])

        pair.each(here)
        assert np.array_equal(outs[0], data(size, 1))
        assert np.array_equal(outs[1], data(size, 0))


def test_tags_choose_the_message_and_equal_tags_keep_their_order(pair):
    sizes = {5: [10, 20_000, 0, 4097], 6: [30_000, 1, 7]}
    sends = [
        ("send", data(s, k), 1, tag)
        for k in range(4)
        for tag in (5, 6)
        for s in sizes[tag][k : k + 1]
    ]
    outs = {tag: [np.zeros(size, np.uint8) for size in row] for tag, row in sizes.items()}

    def here(rank):
        if rank == 0:
            pair.complete(0, sends)
            return
        for tag in (6, 5):
            for out in outs[tag]:
                pair.complete(1, [("recv", out, 0, tag)])

    pair.each(here)
    for tag, row in outs.items():
        for k, out in enumerate(row):
            assert np.array_equal(out, data(sizes[tag][k], k)), (tag, k)


def test_a_send_is_over_only_when_its_receive_is(pair):
    """HCCL's rendezvous, for short data too."""
    out = np.zeros(8, np.uint8)
    send, receive = pair.batch(0, [("send", data(8), 1, 0)]), pair.batch(1, [("recv", out, 0, 0)])
    for _ in range(3):
        _, left = try_once(pair.sessions[0].words, send._table)
        assert left == 1
    assert exchange(pair.sessions[0].address, send.address, 1) == AGAIN
    pair.complete_in_turn([(0, send), (1, receive)], seed=0)
    assert np.array_equal(out, data(8))


def test_more_messages_than_envelopes_wait_for_free_ones(pair):
    count = 2 * layout.ENVELOPES_KEPT + 3
    values = np.arange(count)
    outs = np.zeros(count, np.int64)
    sends = pair.batch(0, [("send", values[n : n + 1], 1, n % 3) for n in range(count)])
    assert try_once(pair.sessions[0].words, sends._table) == (True, count)
    assert try_once(pair.sessions[0].words, sends._table) == (False, count)
    receives = pair.batch(1, [("recv", outs[n : n + 1], 0, n % 3) for n in range(count)])
    pair.complete_in_turn([(0, sends), (1, receives)], seed=0)
    assert outs.tolist() == values.tolist()


def test_a_rank_takes_messages_from_itself(pair):
    x, out = data(10_000), np.zeros(10_000, np.uint8)
    pair.complete(0, [("recv", out, 0, 1), ("send", x, 0, 1)])
    assert np.array_equal(out, x)


def random_traffic(rng, size, count):
    """Messages as (src, dst, tag, data), in the order in which each source sends them."""
    lengths = [0, 1, 100, INLINE + 1, 3 * STREAM + 5, 20_000]
    return [
        (int(rng.integers(size)), int(rng.integers(size)), int(rng.integers(3)), data(n, number))
        for number, n in enumerate(rng.choice(lengths, count).tolist())
    ]


def assert_delivered(traffic, received):
    """Of equal source, destination and tag, what is sent n-th is received n-th."""
    for key, outs in received.items():
        sent = [x for src, dst, tag, x in traffic if (src, dst, tag) == key]
        for out, x in zip(outs, sent, strict=True):
            assert np.array_equal(out, x), key


@pytest.mark.parametrize("seed", range(6))
def test_random_batches_complete_in_any_order_of_attempts(four, seed):
    rng = np.random.default_rng(seed)
    traffic = random_traffic(rng, 4, 80)
    received, ordered = defaultdict(list), [[] for _ in range(4)]
    for src, dst, tag, x in traffic:
        out = np.full(x.size, 0, np.uint8)
        received[src, dst, tag].append(out)
        ordered[src].append(("send", x, dst, tag))
        ordered[dst].append(("recv", out, src, tag))
    batches = []
    for rank, messages in enumerate(ordered):
        # Sends and receives mixed anew; the order of each key's own stays.
        turns = rng.permutation([kind == "send" for kind, *_ in messages])
        kinds = {
            True: iter([m for m in messages if m[0] == "send"]),
            False: iter([m for m in messages if m[0] == "recv"]),
        }
        mixed = [next(kinds[bool(turn)]) for turn in turns]
        half = len(mixed) // 2 if all(m[2] != rank for m in mixed) else len(mixed)
        batches += [(rank, four.batch(rank, part)) for part in (mixed[:half], mixed[half:]) if part]
    four.complete_in_turn(batches, seed)
    assert_delivered(traffic, received)
    for latest in four.latest:
        latest.clear()


def test_threads_complete_random_batches(four):
    traffic = random_traffic(np.random.default_rng(99), 4, 300)
    received, ordered = defaultdict(list), [[] for _ in range(4)]
    for src, dst, tag, x in traffic:
        out = np.zeros(x.size, np.uint8)
        received[src, dst, tag].append(out)
        ordered[src].append(("send", x, dst, tag))
        ordered[dst].append(("recv", out, src, tag))
    four.each(lambda rank: four.complete(rank, ordered[rank]))
    assert_delivered(traffic, received)


# What goes wrong


@pytest.mark.parametrize(("sent", "asked"), [(3, 5), (5, 3), (0, 1), (20_000, 20_001), (9000, 0)])
def test_unequal_counts_raise_on_both_ends_with_both_numbers(pair, sent, asked):
    x, out = np.ones(sent, np.float32), np.zeros(asked, np.float32)

    def here(rank):
        with pytest.raises(MismatchError) as caught:
            pair.complete(rank, [("send", x, 1, 4)] if rank == 0 else [("recv", out, 0, 4)])
        return str(caught.value)

    sender, receiver = pair.each(here)
    assert f"send to rank 1 (tag 4, {sent} x float32), {4 * sent} bytes" in sender
    assert f"the other end receives {asked} x float32, {4 * asked} bytes" in sender
    assert f"recv from rank 0 (tag 4, {asked} x float32)" in receiver
    assert f"sends {sent} x float32" in receiver
    assert not out.any()


def test_equal_bytes_of_another_type_are_refused_too(pair):
    def here(rank):
        x = np.ones(4, np.float32) if rank == 0 else np.ones(4, np.int32)
        with pytest.raises(MismatchError, match=r"float32.*int32|int32.*float32"):
            pair.complete(rank, [("send", x, 1, 0)] if rank == 0 else [("recv", x, 0, 0)])

    pair.each(here)


def test_a_message_after_an_unequal_one_still_matches(pair):
    out = np.zeros(7, np.uint8)

    def here(rank):
        for size in (3, 7):
            mine = data(size) if rank == 0 else (out if size == 7 else np.zeros(4, np.uint8))
            message = ("send", mine, 1, 0) if rank == 0 else ("recv", mine, 0, 0)
            if size == 3:
                with pytest.raises(MismatchError):
                    pair.complete(rank, [message])
            else:
                pair.complete(rank, [message])

    pair.each(here)
    assert np.array_equal(out, data(7))


def test_a_fault_ends_an_exchange(pair):
    batch = pair.batch(0, [("recv", np.zeros(3), 1, 0)])
    pair.sessions[1].declare(layout.LOST, odd=1)
    assert exchange(pair.sessions[0].address, batch.address, 1) == FAULTED


def test_a_receive_from_a_rank_that_has_ended_raises():
    ranks = MessageRanks(2, reads_across=True)
    ranks.hosts[1]._set_state(layout.ENDED)
    with pytest.raises(PeerLostError, match=r"EI0006: recv from rank 1 \(tag 3, 2 x float64\)"):
        ranks.complete(0, [("recv", np.zeros(2), 1, 3)])
    ranks.close()


def test_two_that_send_first_are_told_that_all_wait():
    ranks = MessageRanks(2, reads_across=True, limit=1000.0)

    def here(rank):
        with pytest.raises(NotifyTimeoutError) as caught:
            ranks.complete(rank, [("send", np.zeros(5), 1 - rank, rank)])
        return str(caught.value)

    for text in ranks.each(here):
        assert "every rank of the job waits" in text
        for rank in range(2):
            assert f"rank {rank} waits in send to rank {1 - rank} (tag {rank}, 5 x float64)" in text
    ranks.close()


# Times


def test_a_message_arrives_when_its_link_has_carried_it_from_its_start(pair):
    link = pair.topology.link_of(0, 1)
    for nbytes in (8, 50_000):
        out = np.zeros(nbytes, np.uint8)
        send = Batch("group", pair.sessions[0], [("send", data(nbytes), 1, 0)], {})
        send.depart(pair.topology, 2.5)
        receive = Batch("group", pair.sessions[1], [("recv", out, 0, 0)], {})
        receive.depart(pair.topology, 0.0)
        pair.complete_in_turn([(0, send), (1, receive)], seed=1)
        arrival = receive._table[0, t.M_TIME : t.M_TIME + 1].view(np.float64)[0]
        assert arrival == 2.5 + link.alpha + nbytes * link.beta


def test_a_batch_leaves_an_event_for_each_message_and_one_count(pair):
    trace = current().trace
    before = len(trace.events())
    outs = [np.zeros(6, np.int16) for _ in range(2)]

    def here(rank):
        x = np.full(6, rank, np.int16)
        pair.complete(rank, [("send", x, 1 - rank, 0), ("recv", outs[rank], 1 - rank, 0)])

    pair.each(here)
    events = trace.events()[before:]
    assert sorted((e.kind, e.peer, e.nbytes) for e in events) == [
        ("recv", 0, 12),
        ("recv", 1, 12),
        ("send", 0, 12),
        ("send", 1, 12),
    ]
    flows = [e.flow for e in events]
    assert len(set(flows)) == 2
    assert all(flows.count(flow) == 2 for flow in flows)
    (record,) = pair.statistics.records()
    assert (record.collective, record.calls, record.sent_bytes) == ("send_recv", 2, 24)
