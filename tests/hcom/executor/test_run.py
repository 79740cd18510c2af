"""The interpreter of schedules in one process: results, re-entry, slots, agreement, faults."""

import struct
import threading
import time

import numpy as np
import pytest
from spans import extent
from thread_ranks import ThreadRanks

from hcom.algorithms import TABLE, algorithms, build
from hcom.data_type import DATA_TYPES
from hcom.errors import HcomError, MismatchError, NotifyTimeoutError, PeerLostError
from hcom.executor import tables as t
from hcom.executor.agree import DIFFERS
from hcom.executor.placement import Placement
from hcom.executor.run import run
from hcom.schedule import REDUCING, ROOTED, evaluate, price
from hcom.transport import layout
from hcom.transport.doorbell import AGAIN, CAME, FAULTED

CELLS = sorted(TABLE)
KIND = {kind.name: kind for kind in DATA_TYPES}
FLOAT = KIND["fp32"]
SENTINEL = 0xA5


@pytest.fixture(scope="module")
def groups():
    """Groups of 2 to 5 ranks, kept for all tests: their step numbers go on."""
    made = {}

    def group(size):
        if size not in made:
            made[size] = ThreadRanks(size, slot=4096)
        return made[size]

    yield group
    for ranks in made.values():
        ranks.close()


@pytest.fixture
def pair():
    """Two ranks that a test may break."""
    made = ThreadRanks(2, slot=1024, limit=5.0)
    yield made
    made.close()


def case(cell, size, elements):
    """A schedule, its counts in bytes, every rank's input, and what the oracle makes of them."""
    collective, algorithm = cell
    schedule = build(collective, algorithm, size, size - 1 if collective in ROOTED else 0)
    width = FLOAT.nbytes
    blocked = collective not in ("all_reduce", "reduce", "broadcast")
    counts = tuple(width * (elements + rank) for rank in range(size)) if blocked else 4 * elements
    if collective == "all_to_all":
        counts = tuple(
            tuple(width * (elements + s + 2 * d) for d in range(size)) for s in range(size)
        )
    rng = np.random.default_rng([size, elements])
    sizes = [extent(Placement(schedule, counts, rank).inputs) // width for rank in range(size)]
    inputs = [rng.standard_normal(n).astype(np.float32) for n in sizes]
    right = evaluate(schedule, inputs, counts=np.array(counts) // width if blocked else None)
    return schedule, counts, inputs, [np.asarray(y, np.float32) for y in right]


def empty_like(arrays):
    return [np.full(x.shape, np.nan, x.dtype) for x in arrays]


def assert_equal(targets, right, what):
    for rank, (target, y) in enumerate(zip(targets, right, strict=True)):
        assert target.tobytes() == y.tobytes(), f"rank {rank} of {what}"


# Results


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_threads_run_every_cell_as_the_oracle_does_and_at_its_price(groups, cell):
    size = 2 + CELLS.index(cell) % 4
    ranks = groups(size)
    schedule, counts, inputs, right = case(cell, size, 3001)
    op = "sum" if cell[0] in REDUCING else ""
    programs = ranks.bind(schedule, counts, FLOAT, op)
    priced = price(schedule, ranks.topology, np.array(counts))
    for _ in range(2):
        for session in ranks.sessions:
            session.clock[0] = 0.0
        targets = empty_like(right)
        ranks.run(programs, inputs, targets)
        assert_equal(targets, right, schedule.title)
        assert [float(s.clock[0]) for s in ranks.sessions] == priced.rank_end.tolist()


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_a_run_may_be_left_at_any_wait_and_called_again(groups, cell):
    """On one thread: every wait comes back at once, and a random rank goes on."""
    size = 2 + (CELLS.index(cell) + 1) % 4
    ranks = groups(size)
    schedule, counts, inputs, right = case(cell, size, 1501)
    programs = ranks.bind(schedule, counts, FLOAT, "sum" if cell[0] in REDUCING else "")
    for seed in range(3):
        targets = empty_like(right)
        waited = ranks.run_in_turn(programs, inputs, targets, seed)
        assert waited > 0
        assert_equal(targets, right, schedule.title)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_operations_and_types_reach_their_fold_loop(groups, op):
    ranks = groups(3)
    for kind in (FLOAT, KIND["int8"], KIND["bfp16"]):
        schedule = build("all_reduce", "mesh", 3)
        rng = np.random.default_rng(1)
        inputs = [rng.integers(-5, 6, 1000).astype(kind.numpy) for _ in range(3)]
        right = [np.asarray(y, kind.numpy) for y in evaluate(schedule, inputs, op)]
        targets = [np.zeros_like(x) for x in inputs]
        programs = ranks.bind(schedule, 1000 * kind.nbytes, kind, op)
        ranks.run(programs, inputs, targets)
        assert_equal(targets, right, f"{kind.name} {op}")


@pytest.mark.parametrize("algorithm", algorithms("all_reduce"))
def test_a_run_in_place_overwrites_the_input(groups, algorithm):
    ranks = groups(4)
    schedule, counts, inputs, right = case(("all_reduce", algorithm), 4, 2001)
    arrays = [x.copy() for x in inputs]
    ranks.run(ranks.bind(schedule, counts, FLOAT, "sum"), arrays, arrays)
    assert_equal(arrays, right, schedule.title)


def test_nothing_beside_the_output_is_written(groups):
    ranks = groups(4)
    schedule, counts, inputs, right = case(("all_gather", "ring"), 4, 1001)
    wide = [np.full(y.size + 64, SENTINEL, np.float32) for y in right]
    targets = [whole[32:-32] for whole in wide]
    ranks.run(ranks.bind(schedule, counts), inputs, targets)
    assert_equal(targets, right, schedule.title)
    for whole in wide:
        assert (whole[:32] == SENTINEL).all()
        assert (whole[-32:] == SENTINEL).all()


def test_calls_of_nothing_agree_and_end(groups):
    ranks = groups(3)
    schedule = build("all_reduce", "mesh", 3)
    nothing = [np.empty(0, np.float32)] * 3
    ranks.run(ranks.bind(schedule, 0, FLOAT, "sum"), nothing, nothing)


def test_hundreds_of_short_calls_keep_their_order(groups):
    ranks = groups(5)
    schedule = build("all_reduce", "mesh(one_shot=True)", 5)
    programs = ranks.bind(schedule, 8, KIND["int64"], "sum")

    def here(rank):
        x, out = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for number in range(300):
            x[0] = rank + 10 * number
            programs[rank].point_at(x, out)
            ranks.sessions[rank].run(programs[rank])
            if out[0] != 10 + 50 * number:
                return number
        return 300

    assert ranks.each(here) == [300] * 5


# Waiting and slots


def test_a_wait_comes_back_to_python_and_goes_on_where_it_was(pair):
    schedule, counts, inputs, right = case(("all_reduce", "ring"), 2, 1000)
    programs = pair.bind(schedule, counts, FLOAT, "sum")
    targets = empty_like(right)
    pair.begin(programs, inputs, targets)
    for session in pair.sessions:
        session.words[t.POLLS] = 0
    began = time.monotonic()
    assert pair.step(0, programs) == AGAIN
    assert time.monotonic() - began > 0.05
    cursor = pair.sessions[0].words[t.CURSOR]
    assert cursor > 0
    assert pair.step(0, programs) == AGAIN
    assert pair.sessions[0].words[t.CURSOR] == cursor
    came = [AGAIN, AGAIN]
    for _ in range(100):
        for rank in (1, 0):
            if came[rank] == AGAIN:
                came[rank] = pair.step(rank, programs)
    assert came == [CAME, CAME]
    assert_equal(targets, right, schedule.title)


def word(ranks, rank, offset):
    window = ranks.sessions[rank].windows[rank]
    start = window.address - ranks.hosts[rank].arena.address + offset
    return struct.unpack_from("<q", ranks.hosts[rank].arena.memory, start)[0]


def test_a_slot_is_not_reused_before_its_reader_is_past_it(pair):
    """A root with 20 slices for a reader that is slow: it fills its slots and then stands."""
    schedule = build("broadcast", "ring", 2)
    data = np.arange(20 * pair.slot, dtype=np.uint64).astype(np.uint8)
    out = np.zeros_like(data)
    programs = pair.bind(schedule, data.size)
    pair.begin(programs, [data, None], [data, out])
    came = [pair.step(0, programs), AGAIN]
    assert word(pair, 0, layout.STAGED) <= layout.SLOTS
    most = 0
    while AGAIN in came:
        came[1] = pair.step(1, programs) if came[1] == AGAIN else CAME
        done = word(pair, 1, layout.DONE)
        assert (out[: done * pair.slot] == data[: done * pair.slot]).all()
        came[0] = pair.step(0, programs) if came[0] == AGAIN else CAME
        ahead = word(pair, 0, layout.STAGED) - done
        assert ahead <= layout.SLOTS
        most = max(most, ahead)
    assert most == layout.SLOTS
    assert np.array_equal(out, data)


def test_a_reader_that_sleeps_between_its_steps_gets_every_slice(pair):
    schedule = build("broadcast", "ring", 2)
    data = np.random.default_rng(0).integers(0, 256, 30 * pair.slot, np.uint8)
    out = np.zeros_like(data)
    programs = pair.bind(schedule, data.size)

    def here(rank):
        programs[rank].point_at(data if rank == 0 else None, data if rank == 0 else out)
        session = pair.sessions[rank]
        if rank == 0:
            session.run(programs[0])
            return
        session.words[t.SEQUENCE] += 1
        session.words[t.POLLS] = 1
        while run(session.address, programs[1].address) == AGAIN:
            time.sleep(0.001)

    pair.each(here)
    assert np.array_equal(out, data)


# Agreement and faults


def test_another_description_is_found_by_whoever_compares_first(pair):
    schedule, counts, inputs, right = case(("all_reduce", "mesh"), 2, 10)
    programs = pair.bind(schedule, counts, FLOAT, "sum", description=["this", "that"])
    targets = empty_like(right)
    pair.begin(programs, inputs, targets)
    assert pair.step(0, programs) == AGAIN
    assert pair.step(1, programs) == DIFFERS
    assert pair.sessions[1].words[t.ODD_RANK] == 0
    assert pair.step(0, programs) == DIFFERS
    assert pair.sessions[0].words[t.ODD_RANK] == 1
    for target in targets:
        assert np.isnan(target).all()  # nothing was delivered


@pytest.mark.parametrize("algorithm", ["mesh", "ring", "tree"])
@pytest.mark.parametrize("size", [2, 5])
def test_a_mismatch_raises_on_every_rank_with_who_called_what(algorithm, size):
    ranks = ThreadRanks(size, limit=5.0)
    schedule, counts, inputs, right = case(("all_reduce", algorithm), size, 10)
    told = ["all_reduce(this)"] * (size - 1) + ["all_reduce(that)"]
    programs = ranks.bind(schedule, counts, FLOAT, "sum", description=told)
    others = f"rank{'s' * (size > 2)} {', '.join(map(str, range(size - 1)))}: all_reduce(this)"

    def here(rank):
        programs[rank].point_at(inputs[rank], right[rank])
        with pytest.raises(MismatchError) as caught:
            ranks.sessions[rank].run(programs[rank])
        return str(caught.value)

    for text in ranks.each(here):
        assert text.startswith("EI0005: ranks differ in operation 1 of this communicator")
        assert f"rank {size - 1}: all_reduce(that)" in text
        assert others in text
    for rank in range(size):
        with pytest.raises(HcomError, match=r"unusable.*make a new one"):
            ranks.sessions[rank].run(programs[rank])
    ranks.close()


def test_a_different_number_of_bytes_never_reads_beyond_a_slot(pair):
    """The descriptions are compared before data is taken, however many steps are staged ahead."""
    schedule = build("all_reduce", "mesh", 2)
    short = pair.bind(schedule, 40, FLOAT, "sum", description=["40"] * 2)
    long = pair.bind(schedule, 40_000, FLOAT, "sum", description=["40000"] * 2)
    programs = [short[0], long[1]]
    inputs = [np.zeros(10, np.float32), np.zeros(10_000, np.float32)]

    def here(rank):
        programs[rank].point_at(inputs[rank], inputs[rank])
        with pytest.raises(MismatchError):
            pair.sessions[rank].run(programs[rank])

    pair.each(here)


def test_a_fault_of_the_window_ends_a_run_at_its_start_and_in_a_wait(pair):
    schedule, counts, inputs, right = case(("all_reduce", "mesh(one_shot=True)"), 2, 10)
    programs = pair.bind(schedule, counts, FLOAT, "sum")
    pair.begin(programs, inputs, right)
    assert pair.step(0, programs) == AGAIN
    pair.sessions[1].declare(layout.LOST, odd=1)
    assert pair.step(0, programs) == FAULTED
    assert pair.step(1, programs) == FAULTED  # although all that it needs is there


def test_a_rank_that_does_not_come_is_named_when_the_limit_is_over():
    ranks = ThreadRanks(3, limit=0.3)
    schedule, counts, inputs, right = case(("all_reduce", "mesh"), 3, 10)
    programs = ranks.bind(schedule, counts, FLOAT, "sum")

    def here(rank):
        if rank == 1:
            return "stays away"
        programs[rank].point_at(inputs[rank], right[rank])
        with pytest.raises(NotifyTimeoutError) as caught:
            ranks.sessions[rank].run(programs[rank])
        return str(caught.value)

    first, _, second = ranks.each(here)
    for text in (first, second):
        assert "got nothing from rank(s) 1 within HCCL_EXEC_TIMEOUT (0.3 s)" in text
        assert "rank 1 computes" in text
    ranks.close()


def test_a_rank_that_has_ended_is_not_waited_for(pair):
    schedule, counts, inputs, right = case(("all_reduce", "mesh"), 2, 10)
    programs = pair.bind(schedule, counts, FLOAT, "sum")
    struct.pack_into("<q", pair.hosts[1].arena.memory, layout.STATE, layout.ENDED)
    programs[0].point_at(inputs[0], right[0])
    began = time.monotonic()
    with pytest.raises(PeerLostError, match=r"EI0006: .* waits for rank 1, which has ended"):
        pair.sessions[0].run(programs[0])
    assert time.monotonic() - began < 2.0


def waiting_beside(limit, looks, least, most):
    """Rank 0 runs an operation while rank 1 waits elsewhere, and looks around or is stopped."""
    other = ThreadRanks(2, slot=1024, limit=limit)
    schedule, counts, inputs, right = case(("all_reduce", "mesh"), 2, 10)
    programs = other.bind(schedule, counts, FLOAT, "sum")
    struct.pack_into("<q", other.hosts[1].arena.memory, layout.STATE, layout.WAITING)
    programs[0].point_at(inputs[0], right[0])
    over = threading.Event()

    def look():
        while looks and not over.wait(0.1):
            other.hosts[1].look()

    peer = threading.Thread(target=look)
    peer.start()
    began = time.monotonic()
    try:
        other.sessions[0].run(programs[0])
    finally:
        took = time.monotonic() - began
        over.set()
        peer.join()
        other.close()
        assert least < took < most


def test_ranks_that_all_wait_are_told_within_two_seconds_whatever_the_limit():
    with pytest.raises(NotifyTimeoutError, match="every rank of the job waits"):
        waiting_beside(limit=1000.0, looks=True, least=1.0, most=2.0)


def test_a_rank_that_is_stopped_while_it_waits_is_no_standstill():
    """What it waits for may be there: it cannot look."""
    with pytest.raises(NotifyTimeoutError, match=r"within HCCL_EXEC_TIMEOUT \(2.5 s\)"):
        waiting_beside(limit=2.5, looks=False, least=2.5, most=5.0)
