"""The whole model against float64 numpy, and the laws of its backward in two halves."""

import numpy as np
import pytest

from parallel.config import ModelConfig
from parallel.group import OneRank
from parallel.model import GPT, MicroBatch, Parameters
from tests.parallel.model import reference_gpt

SIZES = {"layers": 2, "hidden": 8, "heads": 2, "sequence": 6, "vocab": 7}
BATCH = 3
SEED = 5


def model_config(**other):
    return ModelConfig(**{**SIZES, "feed_forward_width": 5, **other})


def stage(config, layers=None, *, first=True, last=True):
    parameters = Parameters()
    layers = range(config.layers) if layers is None else layers
    gpt = GPT(config, layers, first=first, last=last, group=OneRank(), parameters=parameters)
    parameters.allocate(SEED)
    for parameter in parameters:  # large enough for every part of the loss to matter
        if parameter.std:
            parameter.value *= np.float32(10.0)
    return gpt, parameters


@pytest.fixture
def batch():
    generator = np.random.default_rng(3)
    shape = (BATCH, SIZES["sequence"])
    tokens, targets = generator.integers(0, SIZES["vocab"], (2, *shape))
    return MicroBatch(tokens.ravel(), targets.ravel())


def run(gpt, batch):
    _, saved = gpt.forward(batch, None)
    gpt.backward_input(saved, None, 1.0 / batch.tokens.size)
    gpt.backward_weight(saved)
    return saved.loss_sum / batch.tokens.size


@pytest.mark.parametrize("feed_forward", ["swiglu", "gelu"])
def test_loss_and_every_gradient_are_those_of_a_float64_model(feed_forward, batch):
    config = model_config(feed_forward=feed_forward)
    gpt, parameters = stage(config)
    loss = run(gpt, batch)

    values = {p.name: p.value.astype(np.float64) for p in parameters}
    tokens, targets = (t.reshape(BATCH, -1) for t in batch)
    assert loss == pytest.approx(reference_gpt.loss(values, config, tokens, targets), rel=1e-6)
    expected = reference_gpt.gradients(values, config, tokens, targets)
    assert list(expected) == [p.name for p in parameters]
    for parameter in parameters:
        error = np.linalg.norm(parameter.gradient - expected[parameter.name])
        assert error < 3e-6 * np.linalg.norm(expected[parameter.name]), parameter.name


def test_gradients_of_micro_batches_add_up(batch):
    gpt, parameters = stage(model_config())
    run(gpt, batch)
    once = parameters.gradients.copy()
    run(gpt, batch)
    np.testing.assert_allclose(parameters.gradients, 2 * once, rtol=1e-5, atol=1e-7)


def test_weight_halves_can_wait_for_all_input_halves(batch):
    gpt, parameters = stage(model_config())
    parts = [MicroBatch(batch.tokens[i : i + 6], batch.targets[i : i + 6]) for i in (0, 6, 12)]
    for part in parts:
        run(gpt, part)
    together = parameters.gradients.copy()

    parameters.gradients.fill(0.0)
    saved = [gpt.forward(part, None)[1] for part in parts]
    for record, part in zip(saved, parts, strict=True):
        gpt.backward_input(record, None, 1.0 / part.tokens.size)
    assert not parameters.gradients.any()
    for record in saved:
        gpt.backward_weight(record)
    np.testing.assert_array_equal(parameters.gradients, together)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_two_stages_do_what_one_does_to_the_bit(cut, batch):
    config = model_config()
    whole, parameters = stage(config)
    loss = run(whole, batch)

    front, front_parameters = stage(config, range(cut), last=False)
    back, back_parameters = stage(config, range(cut, config.layers), first=False)
    x, front_saved = front.forward(batch, None)
    _, back_saved = back.forward(batch, x)
    dx = back.backward_input(back_saved, None, 1.0 / batch.tokens.size)
    assert front.backward_input(front_saved, dx, 0.0) is None
    front.backward_weight(front_saved)
    back.backward_weight(back_saved)

    assert back_saved.loss_sum / batch.tokens.size == loss
    parts = {p.name: p for p in (*front_parameters, *back_parameters)}
    assert parts.keys() == {p.name for p in parameters}
    for parameter in parameters:
        np.testing.assert_array_equal(parts[parameter.name].value, parameter.value)
        np.testing.assert_array_equal(parts[parameter.name].gradient, parameter.gradient)
