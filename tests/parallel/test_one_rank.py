"""Training on one NPU: what a step and a score are, and going on from a checkpoint."""

import math

import numpy as np
import pytest

from hcom.errors import ConfigError
from parallel import resume
from parallel.group import OneRank
from parallel.training import Training
from parallel.verify import one_rank_mesh
from tests.parallel.tiny import tiny_config


def trained(steps, config=None):
    training = Training(config or tiny_config(), one_rank_mesh())
    return training, [training.step(step) for step in range(1, steps + 1)]


def flats(training):
    return training.parameters.values, training.optimizer.m, training.optimizer.v


def test_an_untrained_model_knows_nothing_and_a_trained_one_knows_more():
    _, results = trained(8, tiny_config(learning_rate=0.02))
    assert results[0].loss == pytest.approx(math.log(256), rel=0.01)
    assert results[-1].loss < 0.9 * results[0].loss
    assert isinstance(results[0].loss, float)


def test_the_same_run_twice_has_the_same_bits():
    (one, first), (other, second) = trained(3), trained(3)
    assert first == second
    for left, right in zip(flats(one), flats(other), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("micro_batch", [1, 4, 8])
def test_micro_batches_do_not_change_loss_and_norm(micro_batch):
    config = tiny_config()
    cut = config.model_copy(
        update={"pipeline": config.pipeline.model_copy(update={"micro_batch": micro_batch})}
    )
    (_, whole), (_, parts) = trained(2, config), trained(2, cut)
    for one, other in zip(whole, parts, strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_a_clipped_gradient_moves_the_weights_as_its_scaled_self():
    """Adam hardly sees a gradient's scale, so the moments are compared."""
    (free, results), (clipped, _) = (
        trained(1, tiny_config(gradient_clip=0.0)),
        trained(1, tiny_config(gradient_clip=0.5)),
    )
    scale = 0.5 / results[0].gradient_norm
    assert scale < 1.0
    np.testing.assert_allclose(clipped.optimizer.m, scale * free.optimizer.m, rtol=1e-5, atol=1e-9)


def test_a_score_is_the_mean_over_all_whole_sequences():
    training, _ = trained(1)
    sequence = training.config.model.sequence
    text = np.arange(7 * sequence + 9, dtype=np.uint8)  # 7 sequences: one lot of them is smaller
    single = [training.evaluate(text[i * sequence : (i + 1) * sequence + 1]) for i in range(7)]
    assert training.evaluate(text) == pytest.approx(np.mean(single), rel=1e-6)
    assert len(set(single)) == 7


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path):
    config = tiny_config()
    whole, expected = trained(6, config)
    before, _ = trained(3, config)
    resume.save(tmp_path / "checkpoints", 3, before, OneRank())

    begin = resume.Begin.load(tmp_path, 0, config)
    after = Training(config, one_rank_mesh())
    begin.restore(after)
    assert begin.step == 3
    assert [after.step(step) for step in (4, 5, 6)] == expected[3:]
    for left, right in zip(flats(after), flats(whole), strict=True):
        np.testing.assert_array_equal(left, right)
    one = resume.save(tmp_path / "one", 6, whole, OneRank())
    other = resume.save(tmp_path / "other", 6, after, OneRank())
    files = [(path / "rank-00000.ckpt").read_bytes() for path in (one, other)]
    assert files[0] == files[1]


def test_a_checkpoint_of_another_layout_or_model_is_refused_by_the_names_of_its_keys(tmp_path):
    training, _ = trained(1)
    resume.save(tmp_path / "checkpoints", 1, training, OneRank())
    with pytest.raises(ConfigError) as caught:
        resume.Begin.load(tmp_path, 0, tiny_config(pp=2, seed=7))
    text = str(caught.value)
    assert "it was written with pipeline.stages = 1, training.seed = 0" in text
    assert "this run has pipeline.stages = 2, training.seed = 7" in text
    assert "\n" not in text


def test_a_longer_run_may_go_on_from_a_shorter_one(tmp_path):
    training, _ = trained(1)
    resume.save(tmp_path, 1, training, OneRank())
    assert resume.Begin.load(tmp_path, 0, tiny_config(steps=50)).step == 1
