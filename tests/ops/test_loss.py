import math

import numpy as np
import pytest

import ops
from tests.ops import reference


def test_the_loss_is_its_formula_and_summed_in_float64(normal):
    logits, targets = 5 * normal(300, 37), np.arange(300) % 37
    loss, lse = ops.cross_entropy(logits, targets)
    assert loss == pytest.approx(reference.cross_entropy(logits, targets), rel=1e-6)
    np.testing.assert_allclose(lse, reference.log_sum_exp(logits.astype(float)), rtol=2e-6)


def test_equal_logits_give_the_logarithm_of_the_vocabulary():
    loss, _ = ops.cross_entropy(np.full((4, 256), 3, np.float32), np.zeros(4, np.int64))
    assert loss == pytest.approx(4 * math.log(256), rel=1e-6)


def test_the_gradient_is_that_of_the_formula(normal):
    logits, targets, scale = 2 * normal(5, 9), np.array([0, 8, 3, 3, 1]), 0.25
    _, lse = ops.cross_entropy(logits, targets)
    got = ops.cross_entropy_backward(logits, targets, lse, scale)
    expected = reference.difference_gradient(
        lambda y: reference.cross_entropy(y, targets), logits, scale
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_logits_of_ten_thousand_are_no_overflow():
    logits = np.array([[1e4, -1e4, 0], [-1e4, 1e4, 1e4]], np.float32)
    loss, lse = ops.cross_entropy(logits, np.array([1, 2]))
    assert loss == pytest.approx(2e4 + math.log(2), rel=1e-6)
    gradient = ops.cross_entropy_backward(logits, np.array([1, 2]), lse, 1.0)
    # One float32 step of lse at 10,000 is 2^-10: that much of a probability may be off.
    np.testing.assert_allclose(gradient, [[1, -1, 0], [0, 0.5, -0.5]], atol=2.0**-10)


def test_a_logit_of_minus_infinity_is_a_word_that_cannot_come(normal):
    logits = normal(2, 20)
    logits[:, 5] = -np.inf
    targets = np.array([0, 1])
    loss, lse = ops.cross_entropy(logits, targets)
    assert loss == pytest.approx(reference.cross_entropy(logits, targets), rel=1e-6)
    assert (ops.cross_entropy_backward(logits, targets, lse, 1.0)[:, 5] == 0).all()


def test_nan_spoils_its_own_row_alone(normal):
    logits, targets = normal(3, 20), np.array([0, 1, 2])
    logits[1, 4] = np.nan
    loss, lse = ops.cross_entropy(logits, targets)
    assert np.isnan(lse).tolist() == [False, True, False]
    assert math.isnan(loss)


def test_a_target_outside_the_vocabulary_is_refused(normal):
    with pytest.raises(ValueError, match=r"targets_T\[1\] must be in \[0, 20\), but is 20"):
        ops.cross_entropy(normal(2, 20), np.array([0, 20]))
