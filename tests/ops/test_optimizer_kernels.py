import numpy as np
import pytest

import ops

SETTINGS = {
    "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
}  # fmt: skip


def reference_steps(param, grads, *, learning_rate, beta1, beta2, epsilon, weight_decay, scale):
    param, m, v = param.astype(float), 0.0, 0.0
    for step, grad in enumerate(grads, start=1):
        g = grad.astype(float) * scale
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
        param = param - learning_rate * (m_hat / (np.sqrt(v_hat) + epsilon) + weight_decay * param)
    return param, m, v


def test_steps_follow_the_paper(normal):
    param, grads = normal(6, 50), [normal(6, 50) for _ in range(4)]
    got, m, v = param.copy(), np.zeros_like(param), np.zeros_like(param)
    for step, grad in enumerate(grads, start=1):
        assert ops.adamw(got, grad, m, v, step=step, scale=0.5, **SETTINGS) is None
    expected = reference_steps(param, grads, scale=0.5, **SETTINGS)
    for a, b in zip((got, m, v), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-7)


def test_the_first_step_goes_by_the_learning_rate_whatever_the_gradients_size():
    param, grad = np.zeros(2, np.float32), np.array([1e-3, -1e3], np.float32)
    zeros = [np.zeros(2, np.float32) for _ in range(2)]
    ops.adamw(param, grad, *zeros, step=1, **SETTINGS)
    np.testing.assert_allclose(param, [-0.01, 0.01], rtol=1e-4)


def test_a_step_of_zero_or_a_beta_of_one_is_refused(normal):
    arrays = [normal(3) for _ in range(4)]
    with pytest.raises(ValueError, match=r"step must be at least 1 .* but step=0"):
        ops.adamw(*arrays, step=0, **SETTINGS)
    with pytest.raises(ValueError, match=r"betas in .* beta1=1"):
        ops.adamw(*arrays, step=1, **{**SETTINGS, "beta1": 1})


def test_squares_are_summed_in_float64():
    x = np.full(100_000, 1e-3, np.float32)
    x[0] = 1e4
    expected = (x.astype(float) ** 2).sum()
    assert ops.sum_of_squares(x) == pytest.approx(expected, rel=1e-12)
    assert ops.sum_of_squares(x.reshape(100, 1000)) == ops.sum_of_squares(x)
    assert ops.sum_of_squares(np.zeros(0, np.float32)) == 0
