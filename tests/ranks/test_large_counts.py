"""Counts above 2^31: elements, bytes and addresses have 64 bits throughout.

About 5 GB of memory for two ranks.
"""

import numpy as np
import pytest

pytestmark = [
    pytest.mark.usefixtures("hcom_world"),
    pytest.mark.nightly,
    pytest.mark.ranks(2),
]

BLOCK = 1 << 24


def blocks(count):
    """Borders of the array's blocks, and what each holds: nothing repeats at a power of two."""
    ramp = (np.arange(BLOCK) % 251).astype(np.uint8)
    for number, start in enumerate(range(0, count, BLOCK)):
        size = min(BLOCK, count - start)
        yield slice(start, start + size), ramp[:size] + np.uint8(number % 241)


def filled(count):
    x = np.empty(count, np.uint8)
    for place, values in blocks(count):
        x[place] = values
    return x


def assert_holds(x, expected=lambda values: values):
    wrong = [
        place for place, values in blocks(len(x)) if not np.array_equal(x[place], expected(values))
    ]
    assert wrong == []


def test_a_broadcast_of_more_than_two_thousand_million_elements_is_whole(hcom_world):
    count = 2_200_000_000
    x = filled(count)
    if hcom_world.rank() == 0:
        x[:] = 0
    hcom_world.broadcast(x, root=1, out=x)
    assert_holds(x)


@pytest.mark.parametrize("algorithm", ["mesh", "ring"])
def test_an_all_reduce_of_more_elements_than_an_int32_counts_is_whole(hcom_world, algorithm):
    x = filled(2**31 + 8)
    signed = x.view(np.int8)
    hcom_world.all_reduce(signed, out=signed, algorithm=algorithm)
    assert_holds(x, lambda values: values + values)


def test_blocks_that_start_behind_two_gigabytes_arrive(hcom_world):
    rows = (2**31 + 8) // 4
    x = filled(4 * rows).view(np.uint32) if hcom_world.rank() == 0 else None
    mine = hcom_world.scatter(x).view(np.uint8)
    gathered = hcom_world.gather(mine.view(np.uint32))
    if hcom_world.rank() == 0:
        assert_holds(gathered.view(np.uint8))
