import numpy as np
import pytest

import ops
from tests.ops import reference


def test_the_golden_vector():
    x = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4)
    angles = np.array([[0.1, 0.2]], np.float32)
    y = ops.rotary(x, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(y.ravel(), [0.695504, 1.165456, 3.084846, 4.317605], rtol=1e-6)


@pytest.mark.parametrize("size", [2, 6, 32, 50])
def test_every_head_turns_by_its_position(normal, size):
    positions = np.array([0, 1, 5, 1000])
    x = normal(2, 3, 4, size)
    angles = positions[:, None] * 10000.0 ** (-np.arange(size // 2) / (size // 2))
    y = ops.rotary(x, *ops.rotary_table(positions, size))
    np.testing.assert_allclose(y, reference.rotary(x, angles), rtol=1e-5, atol=1e-6)


def test_scores_depend_on_the_distance_alone(normal):
    q, k = normal(1, 1, 1, 16), normal(1, 1, 1, 16)

    def score(i, j):
        q_i = ops.rotary(q, *ops.rotary_table([i], 16))
        return float((q_i * ops.rotary(k, *ops.rotary_table([j], 16))).sum())

    assert score(9, 5) == pytest.approx(score(104, 100), abs=1e-5)


def test_the_gradient_rotates_back(normal):
    x, table = normal(1, 2, 3, 8), ops.rotary_table([0, 3, 7], 8)
    back = ops.rotary_backward(ops.rotary(x, *table), *table)
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-6)


def test_a_part_of_the_positions_has_the_bits_of_the_whole_table():
    whole, part = ops.rotary_table(np.arange(64), 32), ops.rotary_table(np.arange(20, 30), 32)
    for a, b in zip(whole, part, strict=True):
        assert a[20:30].tobytes() == b.tobytes()


def test_an_odd_head_size_is_refused(normal):
    with pytest.raises(ValueError, match="head_size must be even and positive, but is 5"):
        ops.rotary_table([0], 5)
    with pytest.raises(ValueError, match="last of x_BNSD, must be even, but is 5"):
        ops.rotary(normal(1, 1, 1, 5), normal(1, 2), normal(1, 2))
