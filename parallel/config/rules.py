"""Rules between keys: what is honoured today, and which sizes fit together and the world.

Each function yields the problems it finds, a line each: key, value, what would be right.
"""

from collections.abc import Iterator
from typing import get_args

from hcom.errors import ConfigError
from parallel.config.schema import ParallelConfig, PipelineConfig
from parallel.data import TOKEN_VALUES, corpus
from parallel.pipeline.build import TABLE


def check(config: ParallelConfig, world_size: int) -> None:
    """Refuse a config that nothing honours yet, or whose sizes do not fit.

    Raises
    ------
    ConfigError
        With the first problem, in one line.
    """
    for find in (_not_honoured, _layout_problems, _model_problems, _batch_problems):
        for problem in find(config, world_size):
            raise ConfigError(problem)


def _honoured() -> dict[str, tuple[object, ...]]:
    """Tell what is honoured of each key that may have more values in the file."""
    schedules = get_args(PipelineConfig.model_fields["schedule"].annotation)
    return {
        "tensor_parallel.size": (1,),
        "sequence_parallel.method": ("ulysses",),
        "pipeline.schedule": tuple(name for name in schedules if name in TABLE),
        "pipeline.virtual": (1,),
        "expert_parallel.size": (1,),
        "training.precision": ("fp32",),
    }


def _not_honoured(config: ParallelConfig, _world_size: int) -> Iterator[str]:
    for key, values in _honoured().items():
        section, name = key.split(".")
        value = getattr(getattr(config, section), name)
        if value not in values:
            known = " or ".join(map(str, values))
            yield f"{key} = {value!r}: not honoured yet; what is honoured now: {known}"
    if config.pipeline.micro_batch == "auto":
        yield "pipeline.micro_batch = 'auto': not honoured yet; what is honoured now: a number"


def _layout_problems(config: ParallelConfig, world_size: int) -> Iterator[str]:
    sizes = {
        "pipeline.stages": config.pipeline.stages,
        "data_parallel.size": config.data_parallel.size,
        "sequence_parallel.size": config.sequence_parallel.size,
        "tensor_parallel.size": config.tensor_parallel.size,
    }
    product = config.layout.world_size
    if product != world_size:
        factors = " * ".join(map(str, sizes.values()))
        yield (
            f"{' * '.join(sizes)} = {factors} = {product}: the world has {world_size} ranks; "
            f"make the product {world_size}, or start {product} ranks"
        )


def _model_problems(config: ParallelConfig, _world_size: int) -> Iterator[str]:
    model, stages, size = config.model, config.pipeline.stages, config.sequence_parallel.size
    text = min(map(len, corpus()))
    if model.layers < stages:
        yield (
            f"pipeline.stages = {stages}: more than model.layers = {model.layers}; "
            f"a stage needs a layer, so at most {model.layers}"
        )
    if model.hidden % (2 * model.heads):
        yield (
            f"model.hidden = {model.hidden}: must be a multiple of 2 * model.heads = "
            f"{2 * model.heads} (rotary positions turn pairs of features)"
        )
    if model.heads % size:
        yield (
            f"model.heads = {model.heads}: must be a multiple of sequence_parallel.size = {size} "
            "(ulysses gives each rank whole heads)"
        )
    if model.sequence % size:
        yield (
            f"model.sequence = {model.sequence}: must be a multiple of "
            f"sequence_parallel.size = {size}"
        )
    if model.sequence >= text:
        yield f"model.sequence = {model.sequence}: the validation text needs it below {text}"
    if model.vocab < TOKEN_VALUES:
        yield (
            f"model.vocab = {model.vocab}: must be at least {TOKEN_VALUES}, as a token is any byte"
        )


def _batch_problems(config: ParallelConfig, _world_size: int) -> Iterator[str]:
    pipeline, replicas, batch = config.pipeline, config.data_parallel.size, config.training.batch
    if pipeline.micro_batch is not None and pipeline.micro_batch_size is not None:
        yield (
            f"pipeline.micro_batch_size = {pipeline.micro_batch_size}: pipeline.micro_batch = "
            f"{pipeline.micro_batch} is given too; keep one of them"
        )
    if pipeline.micro_batch_size is not None:
        key, divisor = "pipeline.micro_batch_size", pipeline.micro_batch_size
    else:
        key, divisor = "pipeline.micro_batch", config.micro_batches
    if batch % (replicas * divisor):
        yield (
            f"training.batch = {batch}: must be a multiple of data_parallel.size * {key} = "
            f"{replicas} * {divisor} = {replicas * divisor}"
        )
