"""Checks of a call's arguments: what passes, and what an error says."""

import numpy as np
import pytest

from hcom.arguments import (
    check_array,
    check_blocks,
    check_count,
    check_counts,
    check_out,
    check_rank,
    contiguous,
    same_memory,
)

FLOAT = np.dtype(np.float32)


@pytest.mark.parametrize(
    ("value", "kind"), [([1.0], "list"), (1.0, "float"), (None, "NoneType"), ((), "tuple")]
)
def test_what_is_no_array_is_refused_by_name_and_type(value, kind):
    with pytest.raises(TypeError, match=f"out must be a numpy array, not {kind}"):
        check_array(value, "out")


def test_an_array_of_a_type_that_travels_passes():
    x = np.zeros(3, np.int8)
    assert check_array(x, "x") is x
    with pytest.raises(TypeError, match="complex128 do not travel"):
        check_array(np.zeros(3, complex), "x")


def test_a_contiguous_array_is_passed_on_and_another_one_copied():
    x = np.arange(6.0).reshape(2, 3)
    assert contiguous(x) is x
    for view in (x.T, x[:, ::2], x[::-1], np.broadcast_to(1.0, (2, 3))):
        copy = contiguous(view)
        assert copy.flags.c_contiguous
        assert copy.shape == view.shape
        assert np.array_equal(copy, view)
        assert not np.shares_memory(copy, view)
    assert contiguous(np.array(5.0)).shape == ()


def test_an_output_of_the_right_form_passes():
    x = np.zeros((2, 3), FLOAT)
    check_out(np.zeros((2, 3), FLOAT), [2, 3], FLOAT, x)
    check_out(np.zeros((3, 2), FLOAT).T, (2, 3), FLOAT, x)  # strided is right too
    check_out(x, (2, 3), FLOAT, x)  # in place
    check_out(x[:, :], (2, 3), FLOAT, x)  # another view of the same elements
    check_out(np.zeros(4, FLOAT), (4,), FLOAT, None)


def read_only():
    out = np.zeros(3, FLOAT)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "error", "told"),
    [
        ([0.0] * 3, TypeError, "out must be a numpy array, not list"),
        (np.zeros(3), TypeError, "the input's type float32, not float64"),
        (np.zeros(4, FLOAT), ValueError, r"shape \(3,\), not \(4,\)"),
        (np.zeros((3, 1), FLOAT), ValueError, r"shape \(3,\), not \(3, 1\)"),
        (np.array(0, FLOAT), ValueError, r"shape \(3,\), not \(\)"),
        (read_only(), ValueError, "read-only"),
    ],
)
def test_an_output_of_another_form_is_refused(out, error, told):
    with pytest.raises(error, match=told):
        check_out(out, (3,), FLOAT, np.zeros(3, FLOAT))


def test_an_output_may_be_the_input_but_not_overlap_it():
    memory = np.zeros(20, FLOAT)
    x = memory[5:15]
    check_out(memory[15:], (5,), FLOAT, x)
    check_out(memory[::2], (10,), FLOAT, memory[1::2])  # interleaved: no element in common
    for out in (memory[4:14], memory[6:16], memory[5:15][::-1]):
        with pytest.raises(ValueError, match="out overlaps x"):
            check_out(out, (10,), FLOAT, x)
    with pytest.raises(ValueError, match="out overlaps x"):
        check_out(x[:4], (4,), FLOAT, x)


def test_memory_is_the_same_only_element_by_element():
    square = np.arange(9.0).reshape(3, 3)
    assert same_memory(square, square[:])
    assert not same_memory(square, square.T)
    assert not same_memory(square, square.ravel())
    assert not same_memory(square, square.copy())
    assert not same_memory(square[0], square[1])


@pytest.mark.parametrize("value", [0, 3, np.int64(2), np.uint8(1)])
def test_a_rank_of_the_group_passes_as_a_plain_integer(value):
    assert check_rank(value, "root", 4) == value
    assert type(check_rank(value, "root", 4)) is int


@pytest.mark.parametrize("value", [-1, 4, np.int64(99)])
def test_a_rank_out_of_range_is_refused_with_the_range(value):
    with pytest.raises(ValueError, match=f"dst must be a rank of the group, 0 to 3, not {value}"):
        check_rank(value, "dst", 4)


@pytest.mark.parametrize(("value", "kind"), [(1.0, "float"), (True, "bool"), ("1", "str")])
def test_a_rank_is_an_integer(value, kind):
    with pytest.raises(TypeError, match=f"src must be an integer, not {kind}"):
        check_rank(value, "src", 4)


def test_counts_are_one_for_each_rank():
    assert check_counts([1, np.int32(2), 0], 3, "counts") == (1, 2, 0)
    assert check_counts(np.array([4, 5]), 2, "counts") == (4, 5)
    with pytest.raises(ValueError, match="send_counts has 2 entries, but the group has 3 ranks"):
        check_counts([1, 2], 3, "send_counts")
    with pytest.raises(ValueError, match=r"counts\[1\] must not be negative, not -2"):
        check_counts([1, -2], 2, "counts")
    for value, kind in ((1.5, "float"), (True, "bool"), (None, "NoneType")):
        with pytest.raises(TypeError, match=rf"counts\[0\] must be an integer, not {kind}"):
            check_counts([value], 1, "counts")
    with pytest.raises(TypeError, match="must be an integer, not float64"):
        check_count(np.float64(1), "count")


def test_axis_0_splits_evenly_or_is_refused_with_both_numbers():
    assert check_blocks(np.zeros((6, 2)), 3, "reduce_scatter") == 2
    assert check_blocks(np.zeros((0, 2)), 3, "reduce_scatter") == 0
    with pytest.raises(ValueError, match=r"all_to_all splits axis 0 in 4 equal .* x has 6 rows"):
        check_blocks(np.zeros((6, 2)), 4, "all_to_all")
    with pytest.raises(ValueError, match="scatter splits axis 0, but x has none"):
        check_blocks(np.array(1.0), 1, "scatter")
