import numpy as np
import pytest

from hcom.device import current
from parallel.group import OneRank
from parallel.training import Training
from parallel.verify import Verification, VerifyError, one_rank_mesh, relative_difference
from tests.parallel.tiny import tiny_config


def verified(steps, spoil=None):
    """Train and compare; `spoil` changes what a step came to before that."""
    config = tiny_config()
    verification = Verification(config, steps, OneRank())
    training = Training(config, one_rank_mesh())
    for step in range(1, steps + 1):
        result = training.step(step)
        if spoil is not None:
            result = spoil(step, result, training)
        verification.compare(step, result, training)
    return verification


def test_the_same_run_has_no_difference():
    verification = verified(3)
    assert verification.loss_difference == 0.0
    assert verification.gradient_difference == 0.0


def test_a_gradient_that_is_off_fails_by_the_name_of_its_tensor():
    def spoil(step, result, training):
        training.parameters["layers.2.attention.qkv"].gradient[...] *= np.float32(1.0001)
        return result

    with pytest.raises(VerifyError, match=r"gradient of layers\.2\.attention\.qkv .* 1\.00e-04"):
        verified(2, spoil)


def test_a_loss_that_is_off_fails_by_its_step():
    def spoil(step, result, training):
        return result._replace(loss=result.loss * (1 + 5e-6 * (step == 2)))

    with pytest.raises(VerifyError, match=r"the loss of step 2 is .* 5\.00e-06 relative"):
        verified(3, spoil)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_number_that_is_none_fails(broken):
    with pytest.raises(VerifyError, match="the loss of step 1"):
        verified(1, lambda step, result, training: result._replace(loss=broken))

    def spoil(step, result, training):
        training.parameters["head"].gradient[0, 0] = broken
        return result

    with pytest.raises(VerifyError, match="gradient of head"):
        verified(1, spoil)


def test_the_reference_leaves_no_mark_on_the_device():
    device = current()
    before = device.clock(), len(device.trace), device.memory.live_bytes
    Verification(tiny_config(), 1, OneRank())
    assert current() is device
    assert (device.clock(), len(device.trace), device.memory.live_bytes) == before


def test_a_difference_is_relative_to_the_reference():
    expected = np.array([3.0, 4.0], np.float32)
    assert relative_difference(expected, expected) == 0.0
    assert relative_difference(2 * expected, expected) == 1.0
    assert relative_difference(expected, 0 * expected) == 5.0
