import numpy as np

from hcom.jit import jit
from ops.lanes import LANES, below, fma, from_lane, load, store

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
