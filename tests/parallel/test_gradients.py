import math

import numpy as np
import pytest

from parallel.gradients import gather_sums, reduce_gradients
from parallel.group import OneRank
from parallel.model import Parameters


class Stages(OneRank):
    """Two stages, of which the other one has sent `theirs`."""

    rank_size = 2

    def __init__(self, theirs):
        self.theirs = theirs

    def all_gather(self, x):
        self.sent = x
        return np.concatenate([x, np.array(self.theirs)])


@pytest.fixture
def parameters():
    parameters = Parameters()
    parameters.declare("a", (5, 7), std=0.1)
    parameters.declare("b", (3,), std=0.0)
    parameters.allocate(0)
    generator = np.random.default_rng(2)
    for parameter in parameters:
        parameter.gradient[...] = generator.normal(size=parameter.shape)
    return parameters


def squares(parameters):
    return [float((p.gradient.astype(np.float64) ** 2).sum()) for p in parameters]


def test_the_norm_is_over_all_tensors(parameters):
    loss, norm = gather_sums(parameters, 12.5, OneRank(), 2)
    assert loss == 12.5
    assert norm == pytest.approx(math.sqrt(sum(squares(parameters))), rel=1e-12)


def test_the_norm_is_over_all_stages_and_the_loss_comes_from_the_last(parameters):
    group = Stages([12.5, 4.0, 2.0, 1.0])
    loss, norm = gather_sums(parameters, 0.0, group, 3)
    assert loss == 12.5
    assert norm == pytest.approx(math.sqrt(sum(squares(parameters)) + 7.0), rel=1e-12)
    assert group.sent == pytest.approx([0.0, *squares(parameters), 0.0])


def test_the_norm_does_not_depend_on_where_the_model_is_cut(parameters):
    _, whole = gather_sums(parameters, 0.0, OneRank(), 2)
    part = Parameters()
    part.declare("b", (3,), std=0.0)
    part.allocate(0)
    part["b"].gradient[...] = parameters["b"].gradient
    first = next(iter(squares(parameters)))
    _, cut = gather_sums(part, 0.0, Stages([0.0, first]), 1)
    assert cut == pytest.approx(whole, rel=1e-12)


def test_alone_there_is_nothing_to_reduce(parameters):
    before = parameters.gradients.copy()
    reduce_gradients(parameters, OneRank())
    np.testing.assert_array_equal(parameters.gradients, before)
