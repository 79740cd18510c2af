import numpy as np
import pytest

from hcom.jit import jit
from ops.lanes import LANES
from ops.transpose import transpose

F = np.float32
TWO = F(2)


@jit()
def transposed(x, row, rows, out, out_row):
    transpose(x, 3, row, rows, TWO, out, 1, out_row)


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
