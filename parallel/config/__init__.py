"""`parallel_config.yaml`: what its keys are, which combinations make sense, and how it is read."""

from parallel.config.load import load_config
from parallel.config.schema import (
    DataParallelConfig,
    ExpertParallelConfig,
    ModelConfig,
    ParallelConfig,
    PipelineConfig,
    SequenceParallelConfig,
    TensorParallelConfig,
    TrainingConfig,
)

__all__ = [
    "DataParallelConfig",
    "ExpertParallelConfig",
    "ModelConfig",
    "ParallelConfig",
    "PipelineConfig",
    "SequenceParallelConfig",
    "TensorParallelConfig",
    "TrainingConfig",
    "load_config",
]
