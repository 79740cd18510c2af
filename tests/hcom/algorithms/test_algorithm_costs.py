"""Steps, bytes and prices of the algorithms are those of the reference's cost table."""

import itertools
import time
from collections import Counter
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from hcom.algorithms import build
from hcom.algorithms.nhr import slice_order
from hcom.algorithms.nhr_v1 import grid
from hcom.device import LinkClass
from hcom.schedule import price
from hcom.topology import Topology, uniform

RANKS = [2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 24, 32]
ALPHA, BETA, GAMMA = 7e-6, 3e-10, 5e-11


def log(p):
    """Ceil(log2 p), counted."""
    steps = 0
    while 2**steps < p:
        steps += 1
    return steps


def whole(schedule):
    """A buffer in which every chunk has 64 bytes, so that shares are exact."""
    return 64 * schedule.num_chunks // (2 if schedule.collective == "all_to_all" else 1)


def cost(schedule, topology=None):
    """Alphas, and beta and gamma bytes in units of n, each priced alone."""
    n, p = whole(schedule), schedule.rank_size
    figures = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    alpha, beta, gamma = (price(schedule, uniform(p, *figure), n).time for figure in figures)
    return alpha, Fraction(beta) / n, Fraction(gamma) / n


def busiest(schedule):
    n = whole(schedule)
    sent = price(schedule, uniform(schedule.rank_size, 0, 0), n).rank_bytes
    return Fraction(int(sent.max()), n)


# hccl.md 4.2: steps, then beta and gamma in units of n, for p ranks
EXACT = {
    "mesh": {
        "scatter": lambda p: (1, Fraction(1, p), 0),
        "gather": lambda p: (1, Fraction(1, p), 0),
        "all_gather": lambda p: (1, Fraction(1, p), 0),
        "reduce_scatter": lambda p: (1, Fraction(1, p), Fraction(p - 1, p)),
        "broadcast": lambda p: (2, Fraction(2, p), 0),
        "reduce": lambda p: (2, Fraction(2, p), Fraction(p - 1, p)),
        "all_reduce": lambda p: (2, Fraction(2, p), Fraction(p - 1, p)),
    },
    "ring": {
        "scatter": lambda p: (p - 1, Fraction(p - 1, p), 0),
        "gather": lambda p: (p - 1, Fraction(p - 1, p), 0),
        "all_gather": lambda p: (p - 1, Fraction(p - 1, p), 0),
        "reduce_scatter": lambda p: (p - 1, Fraction(p - 1, p), Fraction(p - 1, p)),
        "broadcast": lambda p: (p - 1, p - 1, 0),
        "reduce": lambda p: (p - 1, p - 1, p - 1),
        "all_reduce": lambda p: (2 * (p - 1), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    },
    "nhr": {
        "scatter": lambda p: (log(p), Fraction(p - 1, p), 0),
        "all_gather": lambda p: (log(p), Fraction(p - 1, p), 0),
        "reduce_scatter": lambda p: (log(p), Fraction(p - 1, p), Fraction(p - 1, p)),
        "broadcast": lambda p: (2 * log(p), Fraction(2 * (p - 1), p), 0),
        "all_reduce": lambda p: (2 * log(p), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    },
    "pairwise": {"all_to_all": lambda p: (p - 1, Fraction(p - 1, p), 0)},
}
EXACT["nb"] = EXACT["nhr"]
HALVING = {
    "all_gather": lambda p: (log(p), Fraction(p - 1, p), 0),
    "reduce_scatter": lambda p: (log(p), Fraction(p - 1, p), Fraction(p - 1, p)),
    "all_reduce": lambda p: (2 * log(p), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    "reduce": lambda p: (2 * log(p), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    "broadcast": lambda p: (log(p), log(p), 0),
}
ROWS = [(name, op, p) for name, ops in EXACT.items() for op in ops for p in RANKS]
ROWS += [("rhd", op, p) for op in HALVING for p in (2, 4, 8, 16, 32)]


def row(name, op, p):
    return (HALVING if name == "rhd" else EXACT[name])[op](p)


@pytest.mark.parametrize("name", [*EXACT, "rhd"])
def test_steps_bytes_and_reductions_are_the_exact_row(name):
    for _, op, p in (r for r in ROWS if r[0] == name):
        schedule = build(op, name, p)
        assert cost(schedule) == row(name, op, p), (op, p)
        assert len(schedule.rounds) == row(name, op, p)[0], (op, p)


@pytest.mark.parametrize("name", [*EXACT, "rhd"])
def test_the_price_is_the_exact_row_to_rounding(name):
    for _, op, p in (r for r in ROWS if r[0] == name):
        schedule = build(op, name, p)
        n = whole(schedule) * 1000
        steps, beta, gamma = row(name, op, p)
        expected = steps * ALPHA + float(beta) * n * BETA + float(gamma) * n * GAMMA
        priced = price(schedule, uniform(p, ALPHA, BETA, GAMMA), n)
        assert priced.time == pytest.approx(expected, rel=1e-12), (op, p)


# hccl.md 4.2, second table: steps of all_reduce, and bytes of the busiest rank in units of n
@pytest.mark.parametrize(
    ("p", "ring", "nhr", "rhd", "rhd_bytes", "v1", "bytes"),
    [
        (2, 2, 2, 2, 1.000, 2, 1.000),
        (3, 4, 4, 4, 2.000, 4, 1.333),
        (4, 6, 4, 4, 1.500, 4, 1.500),
        (5, 8, 6, 6, 2.500, 8, 1.600),
        (6, 10, 6, 6, 2.500, 6, 1.667),
        (7, 12, 6, 6, 2.500, 8, 1.714),
        (8, 14, 6, 6, 1.750, 8, 1.750),
        (12, 22, 8, 8, 2.750, 10, 1.833),
        (16, 30, 8, 8, 1.875, 12, 1.875),
        (24, 46, 10, 10, 2.875, 16, 1.917),
        (32, 62, 10, 10, 1.938, 20, 1.938),
        (64, 126, 12, 12, 1.969, 28, 1.969),
    ],
)
def test_all_reduce_is_the_references_derived_table(p, ring, nhr, rhd, rhd_bytes, v1, bytes):
    steps = {"ring": ring, "nhr": nhr, "nb": nhr, "rhd": rhd, "nhr_v1": v1}
    for name, rounds in steps.items():
        assert len(build("all_reduce", name, p).rounds) == rounds, name
    for name in ("ring", "nhr", "nb"):
        assert float(busiest(build("all_reduce", name, p))) == pytest.approx(bytes, abs=6e-4)
    assert float(busiest(build("all_reduce", "rhd", p))) == pytest.approx(rhd_bytes, abs=6e-4)


@pytest.mark.parametrize("p", RANKS)
def test_rhd_at_other_rank_counts_folds_the_pairs_first(p):
    k = p.bit_length() - 1
    q = 2**k
    if p == q:
        return
    assert cost(build("all_reduce", "rhd", p)) == (
        2 * k + 2,
        Fraction(2 * (q - 1), q) + 2,
        Fraction(q - 1, q) + 1,
    )
    assert cost(build("reduce", "rhd", p)) == (
        2 * k + 1,
        Fraction(2 * (q - 1), q) + 1,
        Fraction(q - 1, q) + 1,
    )
    # Step i of halving moves at most the slices of q/2^i blocks, of which min(e, ..) are double.
    blocks = [q // 2**i for i in range(1, k + 1)]
    largest = [m + min(p - q, m) for m in blocks]
    scattered, gathered = build("reduce_scatter", "rhd", p), build("all_gather", "rhd", p)
    for schedule, steps in (
        (scattered, [p, *largest, 1]),
        (gathered, [1, *largest[::-1], p - 1]),
    ):
        assert largest_messages(schedule) == steps
        # The ranks outside the pairs do not wait for the first step: the sum is a bound.
        assert cost(schedule)[0] <= k + 2
        assert 1 <= cost(schedule)[1] <= Fraction(sum(steps), p)


def largest_messages(schedule):
    """Chunks of each round's largest message."""
    found = []
    for moved in schedule.rounds:
        sizes = Counter()
        for t in moved:
            sizes[t.src, t.dst] += t.count
        found.append(max(sizes.values()))
    return found


@pytest.mark.parametrize("p", RANKS)
def test_the_small_forms_are_one_shot(p):
    one = build("all_reduce", "mesh", p, one_shot=True)
    assert cost(one) == (1, 1, p - 1)
    assert busiest(one) == p - 1
    small = build("all_reduce", "nhr", p, one_shot=True)
    assert len(small.rounds) == 2 * log(p)
    # At other rank counts a leaf of the last level is there before the tree is.
    assert cost(small) <= (2 * log(p), 2 * log(p), log(p))
    assert cost(small) >= (2 * log(p) - 1, 2 * log(p) - 1, log(p))
    if p & (p - 1) == 0:
        assert cost(small) == (2 * log(p), 2 * log(p), log(p))
    assert cost(build("broadcast", "nhr", p, one_shot=True)) == (log(p), log(p), 0)


@pytest.mark.parametrize("p", RANKS[1:])
def test_a_double_tree_sends_half_the_data_down_each_tree(p):
    depth = log(p)
    broadcast, reduce = build("broadcast", "tree", p), build("reduce", "tree", p)
    both = build("all_reduce", "tree", p)
    assert (len(broadcast.rounds), len(reduce.rounds), len(both.rounds)) == (
        depth,
        depth,
        2 * depth,
    )
    assert cost(broadcast)[:2] == (depth, Fraction(depth, 2))
    assert busiest(broadcast) == busiest(reduce) == 1
    assert cost(reduce)[2] <= depth
    if p > 3:
        assert busiest(both) == 2


def test_slices_make_a_trees_levels_overlap():
    p, slices = 16, 8
    schedule = build("broadcast", "tree", p, slices=slices)
    assert len(schedule.rounds) == log(p) + slices - 1
    assert cost(schedule)[1] == Fraction(log(p) + slices - 1, 2 * slices)


@pytest.mark.parametrize("p", [2, 5, 7, 8, 13, 23, 26, 31, 64])
def test_nhr_v1_runs_rings_in_a_near_square_grid(p):
    rows = grid(p)
    widths = [len(r) for r in rows]
    full, widest, height = widths[-1], widths[0], len(rows)
    assert np.concatenate(rows).tolist() == list(range(p))
    assert widths == sorted(widths, reverse=True)
    assert widest - full <= 1
    assert len(build("all_reduce", "nhr_v1", p).rounds) == 2 * (widest - 1) + 2 * (height - 1)
    inner = Fraction(2 * (height - 1), height * full)
    if widest == full:
        expected = Fraction(2 * (p - 1), p)
    else:
        expected = 1 + Fraction(full - 1, full) + inner
    assert busiest(build("all_reduce", "nhr_v1", p)) == expected
    ring = height if widest == full else height + 1
    for op, most in (("reduce_scatter", Fraction(p - 1, p)), ("all_gather", 1)):
        schedule = build(op, "nhr_v1", p)
        assert len(schedule.rounds) == widest - 1 + ring - 1
        assert busiest(schedule) == (Fraction(p - 1, p) if widest == full else most)


@pytest.mark.parametrize(
    ("p", "widths"),
    [(2, [2]), (5, [5]), (6, [3, 3]), (7, [3, 2, 2]), (12, [4] * 3), (13, [4, 3, 3, 3])],
)
def test_nhr_v1_grids_are_the_references(p, widths):
    assert [len(r) for r in grid(p)] == widths


def two_levels(p, size):
    """Alphas 1 and 3, betas 1 and 1/2: inside a server, and through a port between servers."""
    links = (LinkClass("near", "pair", 1.0, 1.0), LinkClass("far", "port", 3.0, 2.0))
    return Topology(np.arange(p) // size, links, 0.0)


@pytest.mark.parametrize(("p", "size"), [(8, 2), (8, 4), (12, 3), (6, 1), (6, 6)])
def test_pipeline_hides_the_faster_level_behind_the_slower(p, size):
    servers, block = p // size, 64
    far, near = 3 + block / 2, 1 + block
    step = max(far if servers > 1 else 0, near if size > 1 else 0)
    expected = (servers - 1) * step + (near if size > 1 else 0)
    for op in ("all_gather", "reduce_scatter"):
        schedule = build(op, "pipeline", p, intra_group_size=size)
        assert len(schedule.rounds) == (servers if size > 1 else servers - 1)
        assert price(schedule, two_levels(p, size), 64 * p).time == expected
        assert busiest(schedule) == Fraction(p - 1, p)
    both = build("all_reduce", "pipeline", p, intra_group_size=size)
    assert price(both, two_levels(p, size), 64 * p).time == 2 * expected


@pytest.mark.parametrize("groups", [[4, 4], [2, 3], [3, 3, 2], [1, 6], [5, 4, 3, 2]])
def test_ahc_takes_the_steps_of_the_largest_group_and_of_the_ring_between(groups):
    largest, smallest, count = max(groups), min(groups), len(groups)
    schedule = build("all_reduce", "ahc", sum(groups), groups=groups)
    assert len(schedule.rounds) == 2 * log(largest) + 2 * (count - 1)
    inside = 2 * Fraction(largest - 1, largest)
    assert busiest(schedule) <= inside + 2 * Fraction(count - 1, count * smallest)
    each = [
        2 * Fraction(g - 1, g) + 2 * Fraction(count - 1, count * g) for g in (largest, smallest)
    ]
    assert busiest(schedule) == max(each)


@pytest.mark.parametrize(("p", "size"), [(8, 2), (8, 4), (24, 4), (7, 1), (32, 8)])
def test_hierarchical_adds_up_the_levels(p, size):
    groups = p // size
    k, inside = log(groups), 1 if size > 1 else 0
    rhd = 2 * (groups.bit_length() - 1) + (groups & (groups - 1) != 0)
    steps = {
        "reduce_scatter": k + inside,
        "all_gather": k + inside,
        "all_reduce": 2 * k + 2 * inside,
        "scatter": k + inside,
        "gather": k + inside,
        "broadcast": 2 * k + 2 * inside,
        "reduce": rhd + 2 * inside,
        "all_to_all": groups,
    }
    share = Fraction(groups - 1, groups)
    between = {
        "reduce_scatter": share,
        "all_gather": share,
        "all_reduce": 2 * share / size,
        "scatter": share,
        "broadcast": 2 * share / size,
        "all_to_all": share,
    }
    only_far = (LinkClass("near", "pair", 0.0, float("inf")), LinkClass("far", "pair", 0.0, 1.0))
    for op, rounds in steps.items():
        schedule = build(op, "hierarchical", p, intra_group_size=size)
        assert len(schedule.rounds) == rounds, op
        if op in between:
            far = price(schedule, Topology(np.arange(p) // size, only_far), whole(schedule))
            assert Fraction(far.time) / whole(schedule) == between[op], op


def test_hierarchical_groups_are_near_square_by_default():
    for p in RANKS:
        size = max(d for d in range(1, isqrt(p) + 1) if p % d == 0)
        explicit = build("all_gather", "hierarchical", p, intra_group_size=size)
        assert build("all_gather", "hierarchical", p).rounds == explicit.rounds


@pytest.mark.parametrize("p", RANKS)
def test_bruck_sends_each_block_once_for_every_bit_of_its_distance(p):
    schedule = build("all_to_all", "bruck", p)
    hops = sum(bin(distance).count("1") for distance in range(1, p))
    assert len(schedule.rounds) == log(p)
    assert cost(schedule) == (log(p), Fraction(hops, p), 0)


@pytest.mark.parametrize("p", RANKS)
def test_mesh_and_star_finish_rooted_operations_in_one_step(p):
    assert cost(build("all_to_all", "mesh", p)) == (1, Fraction(1, p), 0)
    for op in ("scatter", "gather"):
        assert cost(build(op, "star", p)) == (1, Fraction(1, p), 0)
    assert cost(build("broadcast", "star", p)) == (1, 1, 0)
    assert cost(build("reduce", "star", p)) == (1, 1, p - 1)
    assert cost(build("all_reduce", "star", p)) == (2, 2, p - 1)
    port = LinkClass("port", "port", 1.0, 1.0)
    one_port = Topology(np.arange(p), (port, port))
    n = whole(build("scatter", "star", p))
    assert price(build("scatter", "star", p), one_port, n).time == 1 + n * (p - 1) / p


def test_pairwise_takes_the_largest_message_of_each_step():
    matrix = np.random.default_rng(0).integers(0, 1000, (5, 5))
    schedule = build("all_to_all", "pairwise", 5)
    steps = [max(int(matrix[i, (i + k) % 5]) for i in range(5)) for k in range(1, 5)]
    # Ranks do not wait for each other between steps, so the sum is a bound.
    sent = matrix.sum(axis=1) - matrix.diagonal()
    taken = price(schedule, uniform(5, 1.0, 1.0), matrix).time
    assert 4 + sent.max() <= taken <= 4 + sum(steps)
    assert price(schedule, uniform(5, 1.0, 1.0), np.full((5, 5), 9)).time == 4 + 4 * 9


@pytest.mark.parametrize(
    ("p", "order"),
    [(4, [0, 2, 1, 3]), (8, [0, 4, 2, 6, 1, 5, 3, 7]), (5, [0, 3, 1, 4, 2])],
)
def test_nhr_numbers_its_slices_as_the_reference_does(p, order):
    assert slice_order(p).tolist() == order


def runs(chunks):
    chunks = sorted(chunks)
    return 1 + sum(b - a > 1 for a, b in itertools.pairwise(chunks))


@pytest.mark.parametrize("p", [2, 4, 5, 7, 8, 16, 32])
def test_nhr_sends_slices_that_lie_together(p):
    most = 1 if p & (p - 1) == 0 else 2
    for moved in build("all_reduce", "nhr", p).rounds:
        for rank in range(p):
            assert runs(t.src_chunk for t in moved if t.src == rank) <= most


def transfers(schedule, number):
    return {(t.src, t.dst, t.src_chunk) for t in schedule.rounds[number].singles()}


@pytest.mark.parametrize("p", [2, 3, 5, 7, 8, 12])
def test_nhr_and_nb_follow_the_references_step_rules(p):
    for s in range(log(p)):
        d = 2**s
        c = (p - 1 + d) // (2 * d)
        ranks = range(p)
        nhr = {(r, (r - d) % p, (r - d - 2 * d * j) % p) for r in ranks for j in range(c)}
        assert transfers(build("reduce_scatter", "nhr", p), s) == nhr
        nb = {(r, (r + d) % p, (r + d + 2 * d * j) % p) for r in ranks for j in range(c)}
        assert transfers(build("reduce_scatter", "nb", p), s) == nb
        held = d if s < log(p) - 1 else p - d
        nb = {(r, (r + d) % p, (r - j) % p) for r in ranks for j in range(held)}
        assert transfers(build("all_gather", "nb", p), s) == nb
        d = 2 ** (log(p) - 1 - s)
        c = (p - 1 + d) // (2 * d)
        nhr = {(r, (r + d) % p, (r - 2 * d * j) % p) for r in ranks for j in range(c)}
        assert transfers(build("all_gather", "nhr", p), s) == nhr


@pytest.mark.parametrize("p", [2, 3, 5, 7, 8, 12])
def test_nhr_scatters_as_the_reference_but_for_what_the_sender_lacks(p):
    for root in (0, p - 1):
        schedule = build("scatter", "nhr", p, root)
        lacking = 0
        for s in range(log(p)):
            d = 2**s
            c = (p - 1 + d) // (2 * d)
            vendor = set()
            for r in range(p):
                x = (root - r) % p
                if x < min(d, p - d):
                    vendor |= {(r, (r - d) % p, (r - d - 2 * d * j) % p) for j in range(c)}
            ours = transfers(schedule, s)
            assert ours <= vendor
            lacking += len(vendor - ours)
        assert lacking == (1 if p == 7 else 0)


@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_rhd_keeps_slices_in_natural_order(p):
    k = log(p)
    for s in range(k):
        m = 2 ** (k - 1 - s)
        expected = set()
        for r in range(p):
            peer = r ^ m
            low = peer & ~(m - 1)
            expected |= {(r, peer, low + j) for j in range(m)}
        assert transfers(build("reduce_scatter", "rhd", p), s) == expected


@pytest.mark.parametrize(
    ("name", "options"), [("nhr", {}), ("hierarchical", {"intra_group_size": 8})]
)
def test_4096_ranks_are_priced_in_under_five_seconds(name, options):
    start = time.process_time()
    p, n = 4096, 4096 * 1024
    priced = price(build("all_reduce", name, p, **options), uniform(p, ALPHA, BETA, GAMMA), n)
    assert time.process_time() - start < 5
    if name == "nhr":
        share = (p - 1) / p * n
        expected = 2 * 12 * ALPHA + 2 * share * BETA + share * GAMMA
        assert priced.time == pytest.approx(expected, rel=1e-12)
