import numpy as np
import pytest

from hcom.jit import jit
from ops.lanes import LANES, load, store
from ops.vector_math import exp, log, sigmoid


@jit()
def each_exp(x, y):
    for i in range(x.size):
        y[i] = exp(x[i])


@jit()
def each_log(x, y):
    for i in range(x.size):
        y[i] = log(x[i])


@jit()
def each_sigmoid(x, y):
    for i in range(x.size):
        y[i] = sigmoid(x[i])


@jit()
def lanes_exp(x, y):
    for i in range(0, x.size, LANES):
        store(y, i, exp(load(x, i)))


def of(kernel, values):
    x = np.array(values, np.float32)
    y = np.full_like(x, 99)
    kernel(x, y)
    return y


def relative_error(kernel, function, x):
    return np.abs(of(kernel, x) / function(x.astype(float)) - 1).max()


def test_exp_is_right_to_the_last_bits_over_its_whole_range():
    x = np.linspace(-87.3, 88.3, 4001, dtype=np.float32)
    assert relative_error(each_exp, np.exp, x) < 1.2e-7


def test_exp_gives_the_exact_limits():
    got = of(each_exp, [-np.inf, -1e30, -104, -87.34, 0, -0.0, 88.38, 1e30, np.inf])
    assert got.tolist() == [0, 0, 0, 0, 1, 1, np.inf, np.inf, np.inf]


def test_log_is_right_to_the_last_bits_also_for_denormals():
    with np.errstate(under="ignore"):
        x = np.geomspace(1e-44, 3e38, 4001).astype(np.float32)
    near = np.linspace(0.5, 2, 4001, dtype=np.float32)
    for values in (x, near):
        error = np.abs(of(each_log, values) - np.log(values.astype(float)))
        assert (error <= 1.2e-7 * np.maximum(np.abs(np.log(values.astype(float))), 0.5)).all()


def test_log_gives_the_exact_limits():
    got = of(each_log, [0, -0.0, 1, np.inf, -1, -np.inf])
    assert got[:4].tolist() == [-np.inf, -np.inf, 0, np.inf]
    assert np.isnan(got[4:]).all()


def test_sigmoid_is_right_and_saturates_exactly():
    x = np.linspace(-80, 80, 2001, dtype=np.float32)
    assert relative_error(each_sigmoid, lambda x: 1 / (1 + np.exp(-x)), x) < 3e-7
    assert of(each_sigmoid, [-np.inf, -1e4, 0, 1e4, np.inf]).tolist() == [0, 0, 0.5, 1, 1]


@pytest.mark.parametrize("kernel", [each_exp, each_log, each_sigmoid])
def test_nan_stays_nan(kernel):
    assert np.isnan(of(kernel, [np.nan, 1, np.nan])).tolist() == [True, False, True]


def test_lanes_give_the_bits_of_single_values():
    x = np.linspace(-90, 90, 64 * LANES, dtype=np.float32)
    x[:3] = [np.nan, np.inf, -np.inf]
    assert of(lanes_exp, x).tobytes() == of(each_exp, x).tobytes()
