import numpy as np
import pytest

from hcom.jit import jit
from ops.lanes import LANES, below, fma, from_lane, load, store, transpose

F = np.float32
TWO = F(2)
THREE = F(3)


@jit()
def arithmetic(x, y, out):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, a + b)
    store(out, LANES, a - TWO)
    store(out, 2 * LANES, THREE * b)
    store(out, 3 * LANES, a / b)
    store(out, 4 * LANES, fma(a, TWO, b))
    store(out, 5 * LANES, below(a, b, a, THREE))


@jit()
def from_each_lane(x, out):
    for first in range(LANES + 1):
        store(out, first * LANES, from_lane(first, load(x, 0), TWO))


@jit()
def transposed(x, row, rows, out, out_row):
    transpose(x, 3, row, rows, TWO, out, 1, out_row)


def test_operators_work_lane_by_lane_and_take_single_floats(normal):
    x, y, out = normal(LANES), normal(LANES), np.zeros(6 * LANES, F)
    x[0] = np.nan
    arithmetic(x, y, out)
    below = np.where(x < y, x, F(3))
    expected = np.concatenate([x + y, x - F(2), F(3) * y, x / y, x * 2.0 + y, below])
    np.testing.assert_allclose(out, expected, rtol=2e-7)


def test_lanes_before_the_first_are_replaced(normal):
    x, out = normal(LANES), np.zeros((LANES + 1) * LANES, F)
    from_each_lane(x, out)
    for first, row in enumerate(out.reshape(-1, LANES)):
        assert row.tolist() == [2.0] * first + x[first:].tolist()


@pytest.mark.parametrize("rows", [1, LANES - 1, LANES])
def test_a_block_is_transposed_and_missing_rows_repeat_the_first(normal, rows):
    row, out_row = LANES + 5, LANES + 2
    x, out = normal(3 + LANES * row), np.full(1 + LANES * out_row, 9, F)
    transposed(x[: 3 + (rows - 1) * row + LANES], row, rows, out, out_row)
    block = np.lib.stride_tricks.as_strided(x[3:], (LANES, LANES), (4 * row, 4)).copy()
    block[rows:] = block[0]
    got = np.lib.stride_tricks.as_strided(out[1:], (LANES, LANES), (4 * out_row, 4))
    np.testing.assert_array_equal(got, 2 * block.T)
    assert out[0] == 9
    assert (out[1 + LANES : 1 + out_row] == 9).all()
