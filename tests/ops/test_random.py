import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops import random

DRAWS = [random.uniform, random.normal]


@given(start=st.integers(0, 60), count=st.integers(0, 60), draw=st.sampled_from(DRAWS))
def test_an_element_depends_on_its_index_alone(start, count, draw):
    whole = draw(3, "name", 0, 120)
    assert draw(3, "name", start, count).tobytes() == whole[start : start + count].tobytes()


@pytest.mark.parametrize("draw", DRAWS)
def test_seed_and_name_give_other_numbers(draw):
    base = draw(1, "a", 0, 50)
    assert base.dtype == np.float32
    for other in (draw(2, "a", 0, 50), draw(1, "b", 0, 50), draw(1, "a", 50, 50)):
        assert not np.intersect1d(base, other).size


def test_far_indices_cost_nothing():
    assert random.uniform(0, "x", 10**15, 4).size == 4


def test_uniform_fills_the_unit_interval():
    x = random.uniform(0, "u", 0, 200_000).astype(float)
    assert x.min() >= 0
    assert x.max() < 1
    assert x.mean() == pytest.approx(0.5, abs=4 * np.sqrt(1 / 12 / x.size))
    assert np.histogram(x, 10, (0, 1))[0].std() < 4 * np.sqrt(x.size * 0.09)


def test_normal_has_the_moments_and_tails_of_a_normal():
    x = random.normal(0, "n", 0, 200_000).astype(float)
    sigma = 1 / np.sqrt(x.size)
    assert x.mean() == pytest.approx(0, abs=4 * sigma)
    assert x.std() == pytest.approx(1, abs=3 * sigma)
    assert (np.abs(x) > 3).mean() == pytest.approx(0.0027, abs=0.0005)
    assert np.corrcoef(x[::2], x[1::2])[0, 1] == pytest.approx(0, abs=6 * sigma)


@pytest.mark.parametrize("draw", DRAWS)
def test_negative_indices_are_refused(draw):
    with pytest.raises(ValueError, match="must not be negative, but are -1 and 3"):
        draw(0, "x", -1, 3)
