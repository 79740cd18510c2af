import numpy as np
import pytest

import ops
from tests.ops import reference


@pytest.mark.parametrize("width", [1, 16, 43])
def test_swiglu_is_its_formula(normal, width):
    x = 4 * normal(5, 2 * width)
    np.testing.assert_allclose(ops.swiglu(x), reference.swiglu(x), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("width", [1, 16, 43])
def test_gelu_is_its_formula(normal, width):
    x = 3 * normal(5, width)
    np.testing.assert_allclose(ops.gelu(x), reference.gelu(x), rtol=2e-5, atol=1e-6)


def test_gradients_are_those_of_the_formulas(normal):
    x, dy = 2 * normal(3, 10), normal(3, 5)
    expected = reference.difference_gradient(reference.swiglu, x, dy)
    np.testing.assert_allclose(ops.swiglu_backward(dy, x), expected, rtol=1e-4, atol=1e-6)
    x, dy = 2 * normal(3, 7), normal(3, 7)
    expected = reference.difference_gradient(reference.gelu, x, dy)
    np.testing.assert_allclose(ops.gelu_backward(dy, x), expected, rtol=1e-4, atol=1e-6)


def test_large_inputs_saturate_and_do_not_overflow():
    large = np.array([[1e4, -1e4, 3e38, -3e38]], np.float32)
    ones = np.ones_like(large)
    assert ops.gelu(large).tolist() == [[1e4, 0, large[0, 2], 0]]
    assert ops.gelu_backward(ones, large).tolist() == [[1, 0, 1, 0]]
    gated = np.concatenate([large, ones], axis=1)
    assert ops.swiglu(gated).tolist() == [[1e4, 0, large[0, 2], 0]]
    gradient = ops.swiglu_backward(ones, gated)[0, :4]
    assert gradient.tolist() == [1, 0, 1, 0]


def test_an_odd_number_of_features_is_refused(normal):
    with pytest.raises(ValueError, match="x_T2F must have an even number of features, but has 7"):
        ops.swiglu(normal(2, 7))
