import numpy as np
import pytest

import ops
from tests.ops import reference


def test_the_golden_row():
    y, rstd = ops.rms_norm(np.array([[3, 4]], np.float32), np.ones(2, np.float32))
    np.testing.assert_allclose(y, [[0.848528, 1.131371]], rtol=1e-6)
    np.testing.assert_allclose(rstd, [0.282843], rtol=2e-6)


@pytest.mark.parametrize("width", [1, 5, 16, 33, 128])
def test_rows_are_normalised_and_scaled(normal, width):
    x, gamma = normal(9, width), normal(width)
    for got, expected in zip(ops.rms_norm(x, gamma), reference.rms_norm(x, gamma), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6)


def test_epsilon_keeps_a_row_of_zeros_finite():
    y, rstd = ops.rms_norm(np.zeros((1, 4), np.float32), np.ones(4, np.float32), epsilon=1e-4)
    assert (y == 0).all()
    assert rstd[0] == pytest.approx(100, rel=1e-6)


def test_gradients_are_those_of_the_formula(normal):
    x, gamma, dy = normal(4, 7), normal(7), normal(4, 7)
    _, rstd = ops.rms_norm(x, gamma)
    dx = reference.difference_gradient(lambda x: reference.rms_norm(x, gamma)[0], x, dy)
    dgamma = reference.difference_gradient(lambda g: reference.rms_norm(x, g)[0], gamma, dy)
    got = ops.rms_norm_backward_input(dy, x, gamma, rstd)
    np.testing.assert_allclose(got, dx, rtol=1e-4, atol=2e-6)
    got = ops.rms_norm_backward_weight(dy, x, rstd)
    np.testing.assert_allclose(got, dgamma, rtol=1e-4, atol=2e-6)


def test_the_weights_gradient_is_added_into_out(normal):
    x, dy, out = normal(70, 12), normal(70, 12), normal(12)
    _, rstd = ops.rms_norm(x, np.ones(12, np.float32))
    before = out.copy()
    assert ops.rms_norm_backward_weight(dy, x, rstd, out=out) is out
    expected = before + (dy * (x * rstd[:, None]).astype(float)).sum(axis=0)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
