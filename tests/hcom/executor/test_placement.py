"""Where the positions of a schedule lie in one rank's input and output arrays."""

import numpy as np
import pytest
from spans import extent

from hcom.algorithms import build
from hcom.executor.placement import Placement
from hcom.schedule import COLLECTIVES, ROOTED, Schedule

ROOT = 1
WHOLE_INPUT = {"all_reduce", "reduce", "reduce_scatter"}
WHOLE_OUTPUT = {"all_reduce", "broadcast", "all_gather"}


def schedule_of(collective, rank_size, slices=1):
    root = ROOT % rank_size if collective in ROOTED else 0
    return build(collective, "mesh", rank_size, root, slices=slices)


def expected_bytes(collective, rank, counts):
    """Bytes of a rank's input and output, from the collective's definition."""
    total, mine, at_root = sum(counts), counts[rank], rank == ROOT % len(counts)
    return {
        "all_reduce": (total, total),
        "reduce": (total, total * at_root),
        "broadcast": (total * at_root, total),
        "all_gather": (mine, total),
        "gather": (mine, total * at_root),
        "reduce_scatter": (total, mine),
        "scatter": (total * at_root, mine),
        "all_to_all": (total, total),
    }[collective]


def assert_fills(spans, nbytes):
    """The spans follow each other without gap or overlap, from 0 to the array's end."""
    end = 0
    for offset, size in spans.values():
        assert offset == end
        end = offset + size
    assert end == nbytes


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("block", [0, 1, 65, 4096])
@pytest.mark.parametrize("slices", [1, 3])
def test_positions_fill_both_arrays_without_gaps(collective, block, slices):
    for rank_size in (1, 2, 5):
        schedule = schedule_of(collective, rank_size, slices)
        for rank in range(rank_size):
            placement = Placement(schedule, block * rank_size, rank)
            sizes = expected_bytes(collective, rank, [block] * rank_size)
            assert (extent(placement.inputs), extent(placement.outputs)) == sizes
            assert_fills(placement.inputs, sizes[0])
            assert_fills(placement.outputs, sizes[1])


@pytest.mark.parametrize("collective", ["all_gather", "gather", "reduce_scatter", "scatter"])
def test_blocks_of_unequal_size_begin_where_their_counts_say(collective):
    counts = (3, 0, 100, 7)
    starts = [0, 3, 3, 103]
    schedule = schedule_of(collective, 4)
    for rank in range(4):
        placement = Placement(schedule, counts, rank)
        assert (extent(placement.inputs), extent(placement.outputs)) == expected_bytes(
            collective, rank, counts
        )
        large = placement.inputs if len(placement.inputs) > 1 else placement.outputs
        if len(large) > 1:
            assert [offset for offset, _ in large.values()] == starts


def test_all_to_all_counts_give_rows_to_the_input_and_columns_to_the_output():
    counts = ((1, 20, 300), (4, 50, 600), (7, 80, 0))
    schedule = schedule_of("all_to_all", 3)
    for rank in range(3):
        placement = Placement(schedule, counts, rank)
        sent = list(counts[rank])
        received = [row[rank] for row in counts]
        assert [size for _, size in placement.inputs.values()] == sent
        assert [size for _, size in placement.outputs.values()] == received
        assert_fills(placement.inputs, sum(sent))
        assert_fills(placement.outputs, sum(received))


def test_a_value_has_the_size_of_the_position_it_came_from():
    counts = ((1, 20), (4, 50))
    schedule = schedule_of("all_to_all", 2)
    placement = Placement(schedule, counts, 0)
    # Input position d of rank s is what s sends to d.
    assert [[placement.size(s, d) for d in range(2)] for s in range(2)] == [[1, 20], [4, 50]]


def test_inner_borders_of_one_buffer_lie_on_cache_lines():
    schedule = Schedule("all_reduce", 3, 3, [])
    spans = Placement(schedule, 1000, 2).inputs
    assert spans == {0: (0, 384), 1: (384, 320), 2: (704, 296)}
    assert all(offset % 64 == 0 for offset, _ in spans.values())
    assert np.sum([size for _, size in spans.values()]) == 1000
