import pytest

from parallel.pipeline import TABLE, build, peak_in_flight


def words(plan):
    return [" ".join(map(str, row)) for row in plan.actions]


def test_gpipe_runs_all_forwards_then_all_backwards():
    assert words(build("gpipe", 2, 3)) == ["F0 F1 F2 B0 B1 B2"] * 2


def test_one_f_one_b_of_four_stages_is_the_published_staircase():
    assert words(build("1f1b", 4, 8)) == [
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7",
    ]


def test_fewer_micro_batches_than_stages_shorten_the_warm_up():
    assert words(build("1f1b", 4, 2)) == ["F0 F1 B0 B1"] * 3 + ["F0 B0 F1 B1"]


def test_forward_only_has_no_backward():
    assert words(build("forward_only", 2, 2)) == ["F0 F1", "F0 F1"]


@pytest.mark.parametrize("stages", range(1, 9))
@pytest.mark.parametrize("micro_batches", [1, 2, 5, 16])
def test_one_f_one_b_keeps_no_more_inputs_than_stages_after_it(stages, micro_batches):
    kept = peak_in_flight(build("1f1b", stages, micro_batches))
    assert kept == tuple(min(stages - rank, micro_batches) for rank in range(stages))


def test_gpipe_keeps_the_inputs_of_all_micro_batches():
    assert peak_in_flight(build("gpipe", 4, 8)) == (8, 8, 8, 8)


def test_forward_only_keeps_one_input():
    assert peak_in_flight(build("forward_only", 3, 8)) == (1, 1, 1)


def test_an_unknown_schedule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no pipeline schedule 'zb'; there are gpipe, 1f1b"):
        build("zb", 2, 2)


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 4)])
def test_sizes_below_one_are_refused(name, sizes):
    with pytest.raises(ValueError, match="sizes start at 1"):
        build(name, *sizes)
