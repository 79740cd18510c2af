"""A config that is small enough for many runs in a test."""

from parallel.config import ParallelConfig


def tiny_config(*, pp=1, dp=1, sp=1, **training):
    return ParallelConfig.model_validate(
        {
            "pipeline": {"stages": pp, "micro_batch": 2},
            "data_parallel": {"size": dp},
            "sequence_parallel": {"size": sp},
            "model": {"layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "vocab": 256},
            "training": {"steps": 8, "batch": 8, "warm_up": 2, **training},
        }
    )
