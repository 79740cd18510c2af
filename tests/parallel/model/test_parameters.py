import numpy as np
import pytest

from parallel.model import Parameters


def parameters_of(*names, seed=0):
    parameters = Parameters()
    for name in names:
        parameters.declare(name, (3, 5), std=0.0 if "norm" in name else 0.02)
    parameters.allocate(seed)
    return parameters


def test_a_named_tensor_has_the_same_bits_whatever_else_is_there():
    alone = parameters_of("b")
    among = parameters_of("a", "b", "c.norm")
    np.testing.assert_array_equal(alone["b"].value, among["b"].value)
    assert not np.array_equal(among["a"].value, among["b"].value)


def test_another_seed_gives_other_values():
    one, other = parameters_of("a", seed=1), parameters_of("a", seed=2)
    assert not np.array_equal(one["a"].value, other["a"].value)


def test_gains_start_at_one_and_lie_behind_what_decays():
    parameters = parameters_of("a", "b.norm", "c")
    assert (parameters["b.norm"].value == 1.0).all()
    assert parameters["b.norm"].start >= parameters.decayed
    assert parameters["c"].start + parameters["c"].size <= parameters.decayed


def test_values_and_gradients_are_views_of_the_flat_buffers():
    parameters = parameters_of("a", "b")
    parameters.gradients.fill(7.0)
    assert (parameters["b"].gradient == 7.0).all()
    parameters["a"].value.fill(2.0)
    assert parameters.views(parameters.values)["a"].base is not None
    assert (parameters.values[: parameters["a"].size] == 2.0).all()
    assert parameters.count() == 30


def test_tensors_start_on_64_byte_borders():
    parameters = parameters_of("a", "b", "c.norm")
    assert all(p.value.ctypes.data % 64 == 0 for p in parameters)


def test_a_name_declared_twice_is_refused():
    with pytest.raises(ValueError, match="parameter a is declared twice"):
        parameters_of("a", "a")
