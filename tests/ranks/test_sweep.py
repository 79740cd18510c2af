"""Every algorithm of the table on real ranks: counts, types, reductions and roots, pair by pair.

Each result is compared with the schedule's oracle bit for bit, and with numpy: exactly where
nothing rounds, else within eps for each operation there is.
"""

import zlib
from itertools import combinations, product

import numpy as np
import pytest
from numpy_reference import result_of
from pairwise import pairs, pairwise

from hcom.algorithms import TABLE, build, options
from hcom.data_type import DATA_TYPES
from hcom.schedule import REDUCING, ROOTED, evaluate

pytestmark = pytest.mark.usefixtures("hcom_world")

CELLS = [
    *TABLE,
    *(
        (c, f"{name}({o}=True)")
        for c, name in TABLE
        for o, v in options(c, name).items()
        if v is False
    ),
    ("all_reduce", "tree(slices=3)"),
    ("broadcast", "ring(slices=4)"),
    ("all_to_all", "bruck(slices=2)"),
]
KINDS = {kind.name: kind.numpy for kind in DATA_TYPES}
REDUCED = [name for name in KINDS if not name.startswith("fp8")]
FLOATS = [name for name in REDUCED if "fp" in name]
WHOLE = ("all_reduce", "reduce", "broadcast")  # the result has the input's shape
SPLIT = ("reduce_scatter", "scatter", "all_to_all")  # the input has a block for each rank
MARGIN, SENTINEL = 16, 0xA5  # elements before and behind an output, and their bytes


def factors_of(collective, size):
    adds, rooted = collective in REDUCING, collective in ROOTED
    return {
        "kind": REDUCED if adds else list(KINDS),
        "count": sorted({0, 1, size - 1, size, size + 1, 1000, 65_537}),
        "op": ["sum", "prod", "max", "min", "avg"] if adds else [None],
        "root": sorted({0, 1 % size, size // 2, size - 1}) if rooted else [None],
        "in_place": [False, True] if collective in WHOLE else [False],
    }


def is_defined(row):
    return row.get("op") != "avg" or row.get("kind", "fp32") in FLOATS


def rows_of(cell, size):
    """The calls of a cell, in another order for each: so triples differ between cells."""
    turn = zlib.crc32("-".join(cell).encode()) + size
    return pairwise(factors_of(cell[0], size), is_defined, turn)


def values(name, count, seed, *, adds):
    """Any bits; but floats that are added or multiplied are of a size that no type overflows."""
    rng, kind = np.random.default_rng(seed), KINDS[name]
    if kind.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if adds and name in FLOATS:
        wide = np.float64 if name == "fp64" else np.float32
        return ((1 + rng.random(count, wide)) * rng.choice(wide([-1, 1]), count)).astype(kind)
    return np.frombuffer(rng.bytes(count * kind.itemsize), kind)


def inputs_of(collective, row, size):
    """Every rank's input; only the root's for a scatter."""
    count = row["count"] * (size if collective in SPLIT else 1)
    seed = [row["count"], size]
    who = [row["root"]] if collective == "scatter" else range(size)
    x = {r: values(row["kind"], count, [r, *seed], adds=collective in REDUCING) for r in who}
    return [x.get(rank) for rank in range(size)]


def call(hcom, cell, row, x, count):
    """Call a collective into memory with sentinels around; give its result, and all its bytes."""
    collective, algorithm = cell
    given = {name: row[name] for name in ("op", "root") if row[name] is not None}
    if count is None:
        return getattr(hcom, collective)(x, algorithm=algorithm, **given), None
    width = KINDS[row["kind"]].itemsize
    memory = np.full((count + 2 * MARGIN) * width, SENTINEL, np.uint8)
    out = memory[MARGIN * width : (MARGIN + count) * width].view(KINDS[row["kind"]])
    if row["in_place"]:
        out[...] = x
        x = out
    result = getattr(hcom, collective)(x, out=out, algorithm=algorithm, **given)
    assert result is out
    return result, memory


def problems(hcom, cell, row):
    """Make one call; name everything that is wrong with it."""
    (collective, algorithm), rank, size = cell, hcom.rank(), hcom.rank_size()
    inputs, op, root = inputs_of(collective, row, size), row["op"], row["root"]
    expected, bound = result_of(collective, inputs, op, root, rank)
    before = None if inputs[rank] is None else inputs[rank].tobytes()
    result, memory = call(
        hcom, cell, row, inputs[rank], None if expected is None else len(expected)
    )
    if before is not None and inputs[rank].tobytes() != before:
        yield "the input has changed"
    if expected is None:
        if result is not None:
            yield "a result where there is none"
        return
    schedule = build(collective, algorithm, size, root or 0)
    oracle = evaluate(schedule, inputs, op or "sum")[rank]
    if result.tobytes() != oracle.tobytes():
        yield "other bits than the oracle's"
    if not is_near(result, expected, bound):
        yield "another result than numpy's"
    edge = MARGIN * result.itemsize
    if (memory[:edge] != SENTINEL).any() or (memory[len(memory) - edge :] != SENTINEL).any():
        yield "bytes written outside the output"


def is_near(result, expected, bound):
    if isinstance(bound, int):
        return result.tobytes() == expected.tobytes()
    return bool((abs(result.astype(np.longdouble) - expected) <= bound).all())


def assert_right(hcom, calls):
    """Make (cell, row) calls, all of them even if one is wrong: the other ranks make them too."""
    wrong = [
        f"{'-'.join(cell)} {row}: {problem}"
        for cell, row in calls
        for problem in problems(hcom, cell, row)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.ranks(2, 4)
@pytest.mark.parametrize("algorithm", dict.fromkeys(name for _, name in TABLE))
def test_every_algorithm_gives_the_oracles_bits_and_numpys_numbers(hcom_world, algorithm):
    calls = []
    for cell in CELLS:
        if cell[1].split("(")[0] == algorithm:
            rows = rows_of(cell, hcom_world.rank_size())
            calls += [(cell, row) for row in rows[:: len(rows) // 3]]
    assert_right(hcom_world, calls)


@pytest.mark.nightly
@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_pair_of_count_type_reduction_and_root_is_right(hcom_world, cell):
    assert_right(hcom_world, [(cell, row) for row in rows_of(cell, hcom_world.rank_size())])


@pytest.mark.ranks(4)
def test_the_sweep_has_every_pair_of_values_that_is_defined(hcom_world):
    size = hcom_world.rank_size()
    for collective, algorithm in CELLS:
        rows, factors = rows_of((collective, algorithm), size), factors_of(collective, size)
        met = {pair for row in rows for pair in pairs(row)}
        wanted = {
            pair
            for f, g in combinations(sorted(factors), 2)
            for pair in product(product([f], factors[f]), product([g], factors[g]))
            if is_defined(dict(pair))
        }
        assert met == wanted


@pytest.mark.nightly
@pytest.mark.ranks(8)
def test_fifty_overlapping_groups_in_random_order_give_right_numbers(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    shared, own = np.random.default_rng(2), np.random.default_rng([3, rank])
    members = [
        sorted(shared.choice(size, int(shared.integers(1, size + 1)), replace=False).tolist())
        for _ in range(50)
    ]
    groups = [hcom.new_group(ranks) for ranks in members]
    mine = [number for number, ranks in enumerate(members) if rank in ranks]
    for turn in range(5):
        works = {}
        for number in own.permutation(mine).tolist():
            count, algorithms = 1 + 7 * number * number, ("mesh", "ring", "rhd", "nhr", "tree")
            x = np.full(count, 100 * turn + number + rank)
            works[number] = groups[number].all_reduce(
                x, algorithm=algorithms[number % 5], async_op=True
            )
        for number in own.permutation(mine).tolist():
            expected = sum(100 * turn + number + member for member in members[number])
            assert (works[number].wait() == expected).all()
