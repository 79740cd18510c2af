import math

import numpy as np
import pytest

from parallel.config import TrainingConfig
from parallel.model import Parameters
from parallel.optimizer import AdamW, clip_scale, learning_rate

CONFIG = TrainingConfig(steps=100, warm_up=10, learning_rate=0.01, learning_rate_end=0.1)


def test_the_rate_rises_evenly_to_its_highest_at_the_end_of_the_warm_up():
    rates = [learning_rate(CONFIG, step) for step in range(1, 11)]
    assert rates == pytest.approx([0.001 * step for step in range(1, 11)])


def test_the_rate_falls_by_a_cosine_to_its_end():
    assert learning_rate(CONFIG, 55) == pytest.approx(0.01 * (0.1 + 0.9 * 0.5))
    assert learning_rate(CONFIG, 100) == pytest.approx(0.001)
    later = [learning_rate(CONFIG, step) for step in range(10, 101)]
    assert later == sorted(later, reverse=True)


@pytest.mark.parametrize("warm_up", [0, 1, 100, 500])
def test_any_length_of_warm_up_has_a_rate(warm_up):
    config = TrainingConfig(steps=100, warm_up=warm_up, learning_rate=0.01)
    assert all(0 < learning_rate(config, step) <= 0.01 for step in range(1, 101))


@pytest.mark.parametrize(
    ("norm", "limit", "scale"),
    [(0.5, 1.0, 1.0), (1.0, 1.0, 1.0), (4.0, 1.0, 0.25), (4.0, 0.0, 1.0)],
)
def test_a_norm_over_the_limit_is_brought_to_it(norm, limit, scale):
    assert clip_scale(norm, limit) == scale


def test_a_norm_that_is_no_number_is_not_hidden():
    assert math.isnan(clip_scale(math.nan, 1.0))


def test_updates_are_those_of_the_paper():
    parameters = Parameters()
    parameters.declare("matrix", (4, 3), std=0.5)
    parameters.declare("norm", (3,), std=0.0)
    parameters.allocate(0)
    expected = {p.name: p.value.astype(np.float64) for p in parameters}
    m = {name: np.zeros_like(value) for name, value in expected.items()}
    v = {name: np.zeros_like(value) for name, value in expected.items()}
    optimizer = AdamW(parameters, CONFIG)
    generator = np.random.default_rng(1)
    for step in range(1, 5):
        parameters.gradients[...] = generator.normal(size=parameters.gradients.shape)
        for p in parameters:
            gradient = 0.5 * p.gradient.astype(np.float64)
            decay = CONFIG.weight_decay if p.name == "matrix" else 0.0
            m[p.name] = 0.9 * m[p.name] + 0.1 * gradient
            v[p.name] = 0.95 * v[p.name] + 0.05 * gradient**2
            m_hat, v_hat = m[p.name] / (1 - 0.9**step), v[p.name] / (1 - 0.95**step)
            rate, value = learning_rate(CONFIG, step), expected[p.name]
            expected[p.name] = value - rate * (m_hat / (np.sqrt(v_hat) + 1e-8) + decay * value)
        optimizer.step(step, scale=0.5)
    for p in parameters:
        np.testing.assert_allclose(p.value, expected[p.name], rtol=1e-5, atol=1e-7)
