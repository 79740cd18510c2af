"""The cost model: alpha, beta and gamma on links of their own and on shared ports."""

import itertools
import time

import numpy as np
import pytest

from hcom.algorithms import build
from hcom.device import LinkClass, load_profile
from hcom.schedule import Schedule, Transfer, messages, moves, parse, price
from hcom.topology import Topology, from_profile, uniform

ALPHA, BETA, GAMMA = 3.0, 0.5, 0.25


def near(x):
    return pytest.approx(x, rel=1e-12)


def two_servers(gamma=0.0):
    """Ranks 0, 1 and 2, 3 in a server each; a shared port between servers."""
    links = (LinkClass("near", "pair", 1.0, 2.0), LinkClass("far", "port", 5.0, 0.5))
    return Topology(np.array([0, 0, 1, 1]), links, gamma)


def cost(rounds, topology, nbytes=64, chunks=1):
    text = f"all_reduce ranks={topology.rank_size} chunks={chunks}\n{rounds}"
    return price(parse(text), topology, nbytes)


def test_transfers_between_two_ranks_are_one_message_with_one_alpha():
    topology = uniform(2, ALPHA, BETA)
    assert cost("0 | c0:0>1 c1:0>1", topology, 128, 2).time == near(ALPHA + 128 * BETA)


def test_messages_to_several_ranks_leave_together():
    topology = uniform(3, ALPHA, BETA)
    assert cost("0 | c0:0>1 c0:0>2", topology).time == near(ALPHA + 64 * BETA)


def test_a_receiver_reduces_one_message_after_another():
    topology = uniform(3, ALPHA, BETA, GAMMA)
    expected = ALPHA + 64 * BETA + 2 * 64 * GAMMA
    assert cost("0 | c0:1+>0 c0:2+>0", topology).time == near(expected)


def test_a_copy_costs_no_gamma():
    assert cost("0 | c0:1>0", uniform(2, ALPHA, BETA, GAMMA)).time == near(ALPHA + 64 * BETA)


def test_ranks_meet_only_where_data_flows():
    # Ranks 0, 1 take two rounds; ranks 2, 3 only the second one, and start it at once.
    priced = cost("0 | c0:0>1\n1 | c0:1>0 c0:2>3", uniform(4, ALPHA, BETA))
    one = ALPHA + 64 * BETA
    assert priced.rank_end.tolist() == [near(2 * one), near(2 * one), near(one), near(one)]


def test_messages_on_one_port_share_it():
    near_time, far_time = 1.0 + 64 / 2.0, 5.0 + 64 / 0.5
    assert cost("0 | c0:0>1", two_servers()).time == near(near_time)
    assert cost("0 | c0:0>2", two_servers()).time == near(far_time)
    leaving = cost("0 | c0:0>2 c0:0>3", two_servers())
    entering = cost("0 | c0:0>2 c0:1>2", two_servers())
    apart = cost("0 | c0:0>2 c0:1>3 c0:2>1", two_servers())
    assert leaving.time == entering.time == near(5.0 + 2 * 64 / 0.5)
    assert apart.time == near(far_time)


def test_bytes_are_counted_by_link_class():
    priced = cost("0 | c0:0>1 c0:0>2\n1 | c0:1>3 c0:1>1", two_servers())
    assert priced.bytes_per_link == {"near": 64, "far": 128}
    assert priced.rank_bytes.tolist() == [128, 64, 0, 0]


def test_empty_chunks_send_nothing():
    topology = uniform(4, ALPHA, BETA)
    assert price(build("all_reduce", "ring", 4), topology, 0).time == 0
    # 64 bytes are one chunk of four: the ring degenerates to a chain of three, there and back.
    assert price(build("all_reduce", "ring", 4), topology, 64).time == near(6 * (ALPHA + 64 * BETA))


def test_local_moves_take_no_link():
    assert cost("0 | c0:0>0", uniform(2, ALPHA, BETA)).time == 0


def test_scratch_keeps_the_bytes_of_the_origin():
    text = "all_to_all ranks=2 chunks=4 scratch=1\n0 | c1:0>1:c4\n1 | c4:1>0:c4\n2 | c4:0>1:c2"
    priced = price(parse(text), uniform(2, ALPHA, BETA), np.array([[0, 7], [0, 0]]))
    assert priced.time == near(3 * (ALPHA + 7 * BETA))


@pytest.mark.parametrize("algorithm", ["ring", "mesh"])
def test_the_path_accounts_for_the_whole_time(algorithm):
    topology = two_servers(gamma=0.125)
    priced = price(build("all_reduce", algorithm, 4, slices=3), topology, 10_000)
    path = priced.critical_path
    assert path[0].start == 0
    assert path[-1].end == priced.time
    for step, following in itertools.pairwise(path):
        assert following.start == step.end
        assert following.src == step.rank
        assert following.round > step.round


def test_the_path_goes_through_the_slow_link():
    priced = cost("0 | c0:0>1 c0:0>2\n1 | c0:2>3 c0:1>0", two_servers())
    assert [(s.round, s.src, s.dst) for s in priced.critical_path] == [(0, 0, 2), (1, 2, 3)]


def test_messages_come_in_order_of_sender_and_receiver():
    rounds = [[Transfer(1, 0, 0, 0), Transfer(0, 1, 1, 1), Transfer(1, 0, 1, 1, True)]]
    (move,) = moves(Schedule("all_reduce", 2, 2, rounds))
    sent = messages(move, np.array([10, 20, 30]), uniform(2, ALPHA, BETA, GAMMA))
    assert (sent.src.tolist(), sent.dst.tolist()) == ([0, 1], [1, 0])
    assert sent.nbytes.tolist() == [20, 40]
    assert sent.duration.tolist() == [near(ALPHA + 20 * BETA), near(ALPHA + 40 * BETA)]
    assert sent.apply.tolist() == [0, near(30 * GAMMA)]


def test_a_profile_gives_its_links_within_and_between_servers():
    profile = load_profile("ascend910b")
    topology = from_profile(profile, [2, 1])
    assert topology.rank_size == 3
    assert topology.link_of(0, 1) is profile.within_server
    assert topology.link_of(1, 2) is profile.between_servers
    with pytest.raises(ValueError, match="has 1 to 8 NPUs, not 9"):
        from_profile(profile, [9])


def test_a_topology_of_another_size_is_refused():
    with pytest.raises(ValueError, match="joins 3 ranks, the schedule has 4"):
        price(build("all_reduce", "ring", 4), uniform(3, 0, 0), 64)


def test_a_ring_of_4096_ranks_is_priced_in_under_five_seconds():
    p, n = 4096, 4096 * 1024
    start = time.process_time()
    priced = price(build("all_reduce", "ring", p), uniform(p, 1e-5, 1e-9, 1e-10), n)
    assert time.process_time() - start < 5
    share = (p - 1) / p * n
    assert priced.time == near(2 * (p - 1) * 1e-5 + 2 * share * 1e-9 + share * 1e-10)
