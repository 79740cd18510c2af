import pytest
from pydantic import ValidationError

from hcom.errors import ConfigError
from parallel.config import ModelConfig, ParallelConfig, load_config
from parallel.data import corpus

WHOLE = """
tensor_parallel: {size: 1, qkv_proj: column, out_proj: row, gather_output: true}
sequence_parallel: {size: 2, method: ulysses}
pipeline: {stages: 2, micro_batch: 4, schedule: 1f1b, virtual: 1}
data_parallel: {size: 1}
expert_parallel: {size: 1}
model: {layers: 4, hidden: 128, heads: 4, sequence: 256, vocab: 256, feed_forward: swiglu}
training: {steps: 300, batch: 16, learning_rate: 3.0e-3, seed: 0, precision: fp32,
           warm_up: 10, weight_decay: 0.1, gradient_clip: 1.0, beta1: 0.9, beta2: 0.95}
"""


@pytest.fixture
def load(tmp_path):
    def write_and_load(text, world_size=1):
        path = tmp_path / "parallel_config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, world_size)

    return write_and_load


@pytest.fixture
def refusal(load, tmp_path):
    """The line that a file is refused with, without the file's name."""

    def refuse(text, world_size=1):
        with pytest.raises(ConfigError) as refused:
            load(text, world_size)
        line = str(refused.value)
        assert line.startswith(f"{tmp_path / 'parallel_config.yaml'}: ")
        assert "\n" not in line
        assert refused.value.__cause__ is None
        return line.removeprefix(f"{tmp_path / 'parallel_config.yaml'}: ")

    return refuse


def test_every_key_of_the_file_is_an_attribute(load):
    config = load(WHOLE, 4)
    assert config.pipeline.stages == 2
    assert config.tensor_parallel.qkv_proj == "column"
    assert config.training.learning_rate == 0.003
    assert (config.micro_batches, config.micro_batch_size) == (4, 4)
    assert config.layout.world_size == 4


def test_what_is_left_out_has_a_default(load):
    assert load("{}") == ParallelConfig()


def test_a_config_cannot_be_changed(load):
    with pytest.raises(ValidationError, match="frozen"):
        load(WHOLE, 4).pipeline.stages = 3


def test_context_parallel_is_another_name_of_sequence_parallel(load):
    assert load("context_parallel: {size: 4}", 4).sequence_parallel.size == 4


def test_micro_batch_size_says_the_same_in_sequences(load):
    config = load("pipeline: {micro_batch_size: 2}\ndata_parallel: {size: 2}", 2)
    assert (config.micro_batches, config.micro_batch_size) == (4, 2)


def test_without_either_there_are_as_many_micro_batches_as_stages(load):
    assert load("pipeline: {stages: 4}", 4).micro_batches == 4


def test_fewer_micro_batches_than_stages_are_accepted(load):
    assert load("pipeline: {stages: 4, micro_batch: 1}", 4).micro_batches == 1


@pytest.mark.parametrize("hidden", [64, 128, 384, 768])
def test_the_default_width_makes_swiglu_about_as_large_as_gelu(hidden):
    swiglu, gelu = (ModelConfig(hidden=hidden, feed_forward=kind) for kind in ("swiglu", "gelu"))
    assert gelu.feed_forward_width == 4 * hidden
    assert swiglu.feed_forward_width % 32 == 0
    assert 0 <= 3 * swiglu.feed_forward_width - 2 * gelu.feed_forward_width < 3 * 32


def test_a_given_width_is_kept(load):
    assert load("model: {feed_forward_width: 100}").model.feed_forward_width == 100


def test_layers_need_not_divide_evenly(load):
    assert load("pipeline: {stages: 3}\ntraining: {batch: 6}", 3).model.layers == 4


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "pipeline: {stagse: 2}",
            (
                "pipeline.stagse = 2: unknown key; did you mean pipeline.stages? known keys: "
                "stages, micro_batch, micro_batch_size, schedule, virtual"
            ),
        ),
        (
            "piplein: {stages: 2}",
            "piplein = {'stages': 2}: unknown key; did you mean pipeline? kno",
        ),
        (
            "zzz: 1",
            "zzz = 1: unknown key; known keys: tensor_parallel, sequence_parallel, pipeline",
        ),
        ("context_parallel: {sise: 2}", "context_parallel.sise = 2: unknown key; did you mean con"),
        ("1: 2", "1: a key must be text; known keys: tensor_parallel"),
        (
            "{sequence_parallel: {}, context_parallel: {}}",
            "context_parallel = {}: another name of sequence_parallel, which is given too; keep",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(refusal, text, line):
    assert refusal(text).startswith(line)


def test_an_unknown_key_is_named_before_the_wrong_values_around_it(refusal):
    assert refusal("pipeline: {stages: x, stagse: 2}").startswith("pipeline.stagse")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "pipeline: {stages: '4'}",
            (
                "pipeline.stages = '4': expected an integer of at least 1 (YAML reads this as "
                "text; write 4)"
            ),
        ),
        ("pipeline: {stages: 2.0}", "pipeline.stages = 2.0: expected an integer of at least 1"),
        ("pipeline: {stages: true}", "pipeline.stages = True: expected an integer of at least 1"),
        ("pipeline: {stages: 0}", "pipeline.stages = 0: expected an integer of at least 1"),
        ("pipeline: {stages: }", "pipeline.stages = None: expected an integer of at least 1"),
        (
            "pipeline: {micro_batch: few}",
            "pipeline.micro_batch = 'few': expected an integer of at least 1 or auto or null",
        ),
        (
            "pipeline: {schedule: zigzag}",
            "pipeline.schedule = 'zigzag': expected gpipe or 1f1b or interleaved or zb-h1 or zb-h2",
        ),
        (
            "tensor_parallel: {gather_output: 1}",
            "tensor_parallel.gather_output = 1: expected true or false",
        ),
        (
            "training: {learning_rate: 3e-3}",
            (
                "training.learning_rate = '3e-3': expected a number above 0 (YAML reads this as "
                "text; write 0.003)"
            ),
        ),
        ("training: {learning_rate: .nan}", "training.learning_rate = nan: expected a number abov"),
        (
            "training: {beta1: 1}",
            "training.beta1 = 1: expected a number of at least 0 and below 1",
        ),
        ("model: 3", "model = 3: expected a mapping of layers, hidden, heads, sequence, vocab"),
        ("model:", "model = None: expected a mapping of layers, hidden, heads, sequence, vocab"),
        ("- pipeline", "the file = ['pipeline']: expected a mapping of tensor_parallel"),
        ("", "the file = None: expected a mapping of tensor_parallel"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(refusal, text, line):
    assert refusal(text).startswith(line)


def test_a_long_value_does_not_flood_the_line(refusal):
    assert len(refusal(f"pipeline: {{schedule: {'x' * 5000}}}")) < 200


@pytest.mark.parametrize(
    ("text", "world_size", "line"),
    [
        (
            "tensor_parallel: {size: 2}",
            2,
            "tensor_parallel.size = 2: not honoured yet; what is honoured now: 1",
        ),
        (
            "expert_parallel: {size: 2}",
            2,
            "expert_parallel.size = 2: not honoured yet; what is honoured now: 1",
        ),
        (
            "sequence_parallel: {size: 2, method: ring}",
            2,
            "sequence_parallel.method = 'ring': not honoured yet; what is honoured now: ulysses",
        ),
        (
            "context_parallel: {size: 2, method: hybrid}",
            2,
            "context_parallel.method = 'hybrid': not honoured yet; what is honoured now: ulysses",
        ),
        *(
            (
                f"pipeline: {{schedule: {name}}}",
                1,
                (
                    f"pipeline.schedule = '{name}': not honoured yet; what is honoured now: "
                    "gpipe or 1f1b"
                ),
            )
            for name in ("interleaved", "zb-h1", "zb-h2")
        ),
        (
            "pipeline: {virtual: 2}",
            1,
            "pipeline.virtual = 2: not honoured yet; what is honoured now: 1",
        ),
        (
            "pipeline: {micro_batch: auto}",
            1,
            "pipeline.micro_batch = 'auto': not honoured yet; what is honoured now: a number",
        ),
        (
            "training: {precision: bf16}",
            1,
            "training.precision = 'bf16': not honoured yet; what is honoured now: fp32",
        ),
    ],
)
def test_what_nothing_honours_yet_is_refused_by_name(refusal, text, world_size, line):
    assert refusal(text, world_size) == line


def test_another_product_than_the_world_is_spelled_out(refusal):
    assert refusal("{pipeline: {stages: 2}, sequence_parallel: {size: 2}}", 2) == (
        "pipeline.stages * data_parallel.size * sequence_parallel.size * tensor_parallel.size = "
        "2 * 1 * 2 * 1 = 4: the world has 2 ranks; make the product 2, or start 4 ranks"
    )


TEXT = len(corpus()[1])


@pytest.mark.parametrize(
    ("text", "world_size", "line"),
    [
        (
            "pipeline: {stages: 8}",
            8,
            "pipeline.stages = 8: more than model.layers = 4; a stage needs a layer, so at most 4",
        ),
        (
            "model: {hidden: 100, heads: 8}",
            1,
            (
                "model.hidden = 100: must be a multiple of 2 * model.heads = 16 (rotary positions "
                "turn pairs of features)"
            ),
        ),
        (
            "{sequence_parallel: {size: 3}, model: {heads: 4, sequence: 300}}",
            3,
            (
                "model.heads = 4: must be a multiple of sequence_parallel.size = 3 (ulysses "
                "gives each rank whole heads)"
            ),
        ),
        (
            "{context_parallel: {size: 4}, model: {sequence: 254}}",
            4,
            "model.sequence = 254: must be a multiple of context_parallel.size = 4",
        ),
        (
            f"model: {{sequence: {TEXT}}}",
            1,
            f"model.sequence = {TEXT}: the validation text needs it below {TEXT}",
        ),
        (
            "model: {vocab: 128}",
            1,
            "model.vocab = 128: must be at least 256, as a token is any byte",
        ),
        (
            "{data_parallel: {size: 2}, pipeline: {micro_batch: 3}, training: {batch: 16}}",
            2,
            (
                "training.batch = 16: must be a multiple of data_parallel.size * "
                "pipeline.micro_batch = 2 * 3 = 6"
            ),
        ),
        (
            "{data_parallel: {size: 2}, pipeline: {micro_batch_size: 3}, training: {batch: 16}}",
            2,
            (
                "training.batch = 16: must be a multiple of data_parallel.size * "
                "pipeline.micro_batch_size = 2 * 3 = 6"
            ),
        ),
        (
            "pipeline: {micro_batch: 4, micro_batch_size: 4}",
            1,
            (
                "pipeline.micro_batch_size = 4: pipeline.micro_batch = 4 is given too; keep one of "
                "them"
            ),
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_both(refusal, text, world_size, line):
    assert refusal(text, world_size) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("pipeline: {stages: 2\nmodel: {}", "line 2, column 6: expected ',' or '}', but got ':'"),
        ("a:\n\tb: 1", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("pipeline: {}\npipeline: {}", "line 2: key 'pipeline' is given twice; keep one"),
        ("pipeline: {stages: 1, stages: 2}", "line 1: key 'stages' is given twice; keep one"),
        ("pipeline: !!python/name:os.system", "line 1, column 11: could not determine a constr"),
        ("model: \x07", "not YAML: unacceptable character #x0007"),
        (b"model: \xff", "byte 7 is not UTF-8; save the file as UTF-8 text"),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_place(refusal, text, line):
    assert refusal(text).startswith(line)


def test_a_missing_file_is_refused(tmp_path):
    path = tmp_path / "nowhere.yaml"
    with pytest.raises(ConfigError) as refused:
        load_config(path, 1)
    assert str(refused.value) == f"{path}: no such file; give the path of a YAML file"


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read .*; give a YAML file"):
        load_config(tmp_path, 1)
