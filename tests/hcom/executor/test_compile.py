"""Compiled tables, walked in plain Python, do what the schedule's oracle does."""

import itertools

import numpy as np
import pytest
from simulated_ranks import GARBAGE, SimulatedGroup
from spans import extent

from hcom.algorithms import TABLE, algorithms, build
from hcom.device import load_profile
from hcom.errors import NotSupportedError
from hcom.executor import tables as t
from hcom.executor.compile import compile_tables
from hcom.executor.placement import Placement
from hcom.schedule import ROOTED, Schedule, Transfer, check, evaluate, price
from hcom.topology import from_profile, uniform

WHOLE = ("all_reduce", "reduce", "broadcast")  # one buffer, no blocks
CELLS = sorted(TABLE)
# Bytes of a block (of the whole buffer): one, nothing, around a cache line, odd and large.
BYTES = (1037, 1, 0, 64, 65, 4099, 127)
ROOM = 1 << 16  # a slot that holds any of these


def counts_of(schedule, nbytes):
    """Bytes of a call as `Placement` takes them: blocks of odd sizes where there are blocks."""
    p = schedule.rank_size
    if schedule.collective in WHOLE:
        return nbytes
    if schedule.collective == "all_to_all":
        return tuple(tuple(nbytes + 3 * s + 7 * d for d in range(p)) for s in range(p))
    return tuple(nbytes + 5 * rank for rank in range(p))


def inputs_of(schedule, counts, dtype, seed):
    """Random bytes (or numbers) for each rank's input."""
    rng = np.random.default_rng([seed, schedule.rank_size])
    sizes = [extent(Placement(schedule, counts, r).inputs) for r in range(schedule.rank_size)]
    if dtype == np.uint8:
        return [rng.integers(0, 256, size, np.uint8) for size in sizes]
    return [rng.standard_normal(size // dtype.itemsize).astype(dtype) for size in sizes]


def tight_slot(schedule):
    """Bytes of a slot that has a cache line for each position, no more: as many slices as can be.

    The bound counts each position that a rank sends, or moves to another place of its own.
    """
    most = max(
        (
            len({m.src_chunk + i for m in one if m.src == rank for i in range(m.count)})
            for one in schedule.rounds
            for rank in range(schedule.rank_size)
        ),
        default=0,
    )
    return 64 * max(1, most)


def assert_right(
    schedule, counts, slot_bytes, *, dtype=np.uint8, in_place=False, runs=2, registered=None
):
    """Run all ranks several times on the same slots and compare with the oracle, bit for bit."""
    dtype = np.dtype(dtype)
    group = SimulatedGroup(schedule, counts, slot_bytes, registered)
    blocks = None if schedule.collective in WHOLE else np.asarray(counts) // dtype.itemsize
    for seed in range(runs):
        inputs = inputs_of(schedule, counts, dtype, seed)
        expected = evaluate(schedule, inputs, counts=blocks)
        sources = [x.copy().view(np.uint8) for x in inputs]
        targets = [
            source if in_place and source.size == y.nbytes else np.full(y.nbytes, GARBAGE, np.uint8)
            for y, source in zip(expected, sources, strict=True)
        ]
        group.run(sources, targets, np.add, dtype, seed)
        for rank, (target, right) in enumerate(zip(targets, expected, strict=True)):
            assert target.tobytes() == right.tobytes(), f"rank {rank} of {schedule.title}"
        for source, target, x in zip(sources, targets, inputs, strict=True):
            assert source is target or source.tobytes() == x.tobytes(), "an input was changed"
    return group


def turning(cell, rank_size):
    """A schedule, counts and a slot size that go round with the cell and the number of ranks."""
    collective, algorithm = cell
    turn = CELLS.index(cell) + rank_size
    root = turn % rank_size if collective in ROOTED else 0
    schedule = build(collective, algorithm, rank_size, root)
    slot_bytes = ROOM if turn % 3 == 0 else tight_slot(schedule)
    return schedule, counts_of(schedule, BYTES[turn % len(BYTES)]), slot_bytes


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_cell_of_the_table_does_what_the_oracle_does(cell):
    for rank_size in range(1, 9):
        assert_right(*turning(cell, rank_size))


def some_registered(rank_size, seed):
    """For each rank at random: which of its arrays stand in registered memory."""
    rng = np.random.default_rng(seed)
    kinds = [(), (t.INPUT,), (t.OUTPUT,), (t.INPUT, t.OUTPUT), (t.INPUT, t.OUTPUT)]
    return [kinds[rng.integers(len(kinds))] for _ in range(rank_size)]


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_cell_is_right_where_peers_read_registered_arrays(cell):
    for rank_size in range(2, 9):
        registered = some_registered(rank_size, rank_size)
        in_place = cell[0] in WHOLE and rank_size % 2 == 0
        if in_place:  # one array, registered or not
            registered = [kind if len(kind) != 1 else () for kind in registered]
        schedule, counts, slot_bytes = turning(cell, rank_size)
        assert_right(schedule, counts, slot_bytes, registered=registered, in_place=in_place, runs=3)


@pytest.mark.nightly
@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_cell_is_right_with_every_root_count_and_slot_size(cell):
    collective, algorithm = cell
    for rank_size, nbytes in itertools.product(range(1, 9), BYTES):
        for root in range(rank_size) if collective in ROOTED else [0]:
            schedule = build(collective, algorithm, rank_size, root)
            tight = tight_slot(schedule)
            for slot_bytes in (tight, 3 * tight, ROOM):
                assert_right(schedule, counts_of(schedule, nbytes), slot_bytes, runs=1)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell[0] in WHOLE], ids="-".join)
def test_calls_in_place_give_the_same(cell):
    for rank_size in (1, 2, 3, 6, 8):
        assert_right(*turning(cell, rank_size), in_place=True)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce", "reduce_scatter"])
def test_sums_are_rounded_in_the_order_of_the_oracle(collective):
    for algorithm, rank_size in itertools.product(algorithms(collective), (3, 5, 8)):
        schedule = build(collective, algorithm, rank_size)
        counts = 4 * 501 if collective in WHOLE else (4 * 501,) * rank_size
        assert_right(schedule, counts, 2 * tight_slot(schedule), dtype=np.float32, runs=1)


@pytest.mark.parametrize(
    ("collective", "algorithm"), [("all_reduce", "mesh"), ("broadcast", "ring"), ("gather", "ring")]
)
def test_a_software_pipeline_of_slices_gives_the_same(collective, algorithm):
    for slices, nbytes in itertools.product((2, 5), (63, 5000)):
        schedule = build(collective, algorithm, 4, slices=slices)
        assert_right(schedule, counts_of(schedule, nbytes), tight_slot(schedule))


# Schedules by hand


def checked(collective, rank_size, chunks, rounds, **more):
    schedule = Schedule(collective, rank_size, chunks, rounds, **more)
    check(schedule)
    return schedule


# Rank 0 keeps its own value in scratch while rank 1's overwrites it in the same round.
KEPT_IN_SCRATCH = [
    [Transfer(0, 0, 0, 1), Transfer(1, 0, 0, 0), Transfer(0, 1, 0, 1)],
    [Transfer(0, 0, 1, 0, True), Transfer(1, 1, 1, 0, True)],
]
# Both ranks swap, then add what they have sent to what has come: nothing is where it began.
SWAPPED = [
    [
        Transfer(0, 0, 0, 1),
        Transfer(1, 1, 0, 1),
        Transfer(0, 1, 0, 0),
        Transfer(1, 0, 0, 0),
    ],
    [],
    [Transfer(0, 0, 1, 0, True), Transfer(1, 1, 1, 0, True)],
]


@pytest.mark.parametrize("rounds", [KEPT_IN_SCRATCH, SWAPPED])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_round_reads_everything_before_it_writes(rounds, in_place):
    schedule = checked("all_reduce", 2, 1, rounds, num_scratch=1)
    for nbytes in (1, 64, 1001):
        for slot_bytes in (128, ROOM):
            assert_right(schedule, nbytes, slot_bytes, in_place=in_place)


def test_operands_of_one_position_fold_by_rank_and_then_in_listed_order():
    """Rank 1 adds two values of its own and one each of ranks 0 and 2: its own value goes first."""
    gather = [Transfer(r, 1, 0, 1 + r) for r in (0, 2)]
    for order in itertools.permutations([Transfer(1, 1, 3, 0, True), Transfer(1, 1, 1, 0, True)]):
        rounds = [gather, list(order), [Transfer(1, r, 0, 0) for r in (0, 2)]]
        schedule = checked("all_reduce", 3, 1, rounds, num_scratch=3)
        assert_right(schedule, 4 * 200, 256, dtype=np.float32, runs=5)


def test_a_peer_may_give_two_operands_of_one_position():
    """Rank 0 has both other values in scratch and sends each on its own to rank 1."""
    rounds = [
        [Transfer(2, 0, 0, 1)],
        [Transfer(0, 1, 1, 0, True), Transfer(0, 1, 0, 0, True)],
        [Transfer(1, 0, 0, 0), Transfer(1, 2, 0, 0)],
    ]
    schedule = checked("all_reduce", 3, 1, rounds, num_scratch=1)
    assert_right(schedule, 4 * 200, 256, dtype=np.float32, runs=5)


def test_scratch_is_as_large_as_what_is_kept_in_it():
    schedule = checked("all_reduce", 2, 1, SWAPPED, num_scratch=1)
    tables = compile_tables(schedule, 100, 0, ROOM, uniform(2, 0.0, 0.0))
    assert tables.scratch_bytes == 128  # whole cache lines
    plain = compile_tables(build("all_reduce", "ring", 2), 100, 0, ROOM, uniform(2, 0.0, 0.0))
    assert plain.scratch_bytes == 0


# Slices


def test_a_call_that_fits_its_slots_is_not_cut():
    schedule = build("all_reduce", "mesh(one_shot=True)", 4)
    for nbytes, slices in ((4096, 1), (4097, 2), (2 * 4096, 2), (2 * 4096 + 1, 4)):
        assert compile_tables(schedule, nbytes, 0, 4096, uniform(4, 0.0, 0.0)).slices == slices


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_all_ranks_count_the_same_steps(cell):
    for rank_size in (2, 5):
        schedule, counts, slot_bytes = turning(cell, rank_size)
        topology = uniform(rank_size, 0.0, 0.0)
        tables = [
            compile_tables(schedule, counts, r, slot_bytes, topology) for r in range(rank_size)
        ]
        assert len({(x.slices, len(x.rounds)) for x in tables}) == 1
        assert tables[0].slices == 1 or tables[0].slices % 2 == 0


def test_a_round_of_more_positions_than_a_slot_has_cache_lines_is_refused():
    schedule = checked("broadcast", 2, 100, [[Transfer(0, 1, 0, 0, False, 100)]])
    with pytest.raises(NotSupportedError, match=r"100 positions.*64 fit.*fewer chunks"):
        compile_tables(schedule, 64 * 100, 0, 64 * 64, uniform(2, 0.0, 0.0))
    assert_right(schedule, 64 * 100, 64 * 100)


# What a call sends and takes


def test_nothing_is_sent_to_a_rank_itself_or_for_an_empty_position():
    for algorithm in algorithms("all_to_all"):
        schedule = build("all_to_all", algorithm, 4)
        tables = compile_tables(schedule, 0, 1, ROOM, uniform(4, 0.0, 0.0))
        assert (tables.peers, tables.sent_bytes, tables.stage, tables.write) == ([], 0, [], [])
    alone = compile_tables(build("all_to_all", "mesh", 1), 100, 0, ROOM, uniform(1, 0.0, 0.0))
    assert (alone.peers, alone.sent_bytes, alone.stage) == ([], 0, [])


def clocks_by_tables(tables, entry):
    """Walk the cost and arrival columns as the interpreter does; each rank's end, s."""
    clocks = list(entry)
    for number in range(len(tables[0].rounds)):
        starts = list(clocks)
        for rank, one in enumerate(tables):
            row = one.rounds[number]
            senders = range(row[t.SENDER_BEGIN], row[t.SENDER_END])
            comes = max([starts[rank], *(starts[one.sender[i]] + one.arrival[i] for i in senders)])
            leaves, reduces = one.cost[number]
            clocks[rank] = max(comes + reduces, starts[rank] + leaves)
    return clocks


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
@pytest.mark.parametrize("servers", [[5], [2, 3], [1, 1, 1, 1]], ids=str)
def test_the_clock_columns_add_up_to_the_price_on_every_rank(cell, servers):
    topology = from_profile(load_profile("ascend910b"), servers)
    for nbytes in (4, 100_000):
        schedule = build(*cell, sum(servers), sum(servers) - 1 if cell[0] in ROOTED else 0)
        counts = counts_of(schedule, nbytes)
        tables = [compile_tables(schedule, counts, r, ROOM, topology) for r in range(sum(servers))]
        priced = price(schedule, topology, counts)
        assert clocks_by_tables(tables, [0.0] * len(tables)) == priced.rank_end.tolist()
        assert [one.sent_bytes for one in tables] == priced.rank_bytes.tolist()
