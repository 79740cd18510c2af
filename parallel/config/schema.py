"""The keys of `parallel_config.yaml`: a pydantic model a section, attributes named as the keys.

Every key of the file format is accepted here, also those that nothing honours yet; `rules` refuses
the latter by name. Types are strict: "4" is not 4, and `true` is not 1.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from parallel.layout import Layout

Size = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A mapping of the file: immutable, unknown keys refused, no silent conversion."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class TensorParallelConfig(Section):
    """Weights of a layer split over ranks."""

    size: Size = 1
    qkv_proj: Literal["column", "row"] = "column"
    """Which dim of the query, key and value weights is split: columns are output features."""
    out_proj: Literal["row", "column"] = "row"
    """Which dim of the attention output weight is split: rows are input features."""
    gather_output: bool = True
    """Whether every rank ends with the whole logits."""


class SequenceParallelConfig(Section):
    """Tokens of a sequence split over ranks; what Megatron calls context parallel."""

    size: Size = 1
    method: Literal["ulysses", "ring", "hybrid"] = "ulysses"


class PipelineConfig(Section):
    """Layers split over ranks, and the order of their micro-batches."""

    stages: Size = 1
    micro_batch: Size | Literal["auto"] | None = None
    """How many micro-batches a step and data-parallel replica; default: as many as stages."""
    micro_batch_size: Size | None = None
    """Sequences in a micro-batch, instead of `micro_batch`."""
    schedule: Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"] = "1f1b"
    virtual: Size = 1
    """Chunks of layers a stage holds."""


class DataParallelConfig(Section):
    """Replicas that share a step's sequences."""

    size: Size = 1


class ExpertParallelConfig(Section):
    """Experts split over the ranks of data and sequence parallel."""

    size: Size = 1


def _default_width(model: dict[str, Any]) -> int:
    """Width that keeps the weights at 8 hidden^2: SwiGLU has three matrices, GELU two."""
    hidden: int = model["hidden"]
    if model["feed_forward"] == "gelu":
        return 4 * hidden
    return 32 * math.ceil(8 * hidden / 3 / 32)


class ModelConfig(Section):
    """The GPT."""

    layers: Size = 4
    hidden: Size = 128
    heads: Size = 4
    sequence: Size = 256
    """Tokens in a sequence."""
    vocab: Size = 256
    feed_forward: Literal["swiglu", "gelu"] = "swiglu"
    feed_forward_width: Size = Field(default_factory=_default_width)
    """Features between the two feed-forward projections; default: 8/3 of `hidden`, rounded up to
    a multiple of 32 (swiglu), or 4 times `hidden` (gelu)."""


class TrainingConfig(Section):
    """Steps, their size, and the optimizer (AdamW)."""

    steps: Size = 300
    batch: Size = 16
    """Sequences a step over all replicas."""
    learning_rate: Rate = 3e-3
    """The highest rate: reached after `warm_up` steps, decayed by a cosine after it."""
    learning_rate_end: Share = 0.1
    """What share of `learning_rate` is left at the last step."""
    warm_up: Count = 20
    """Steps over which the rate rises linearly."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    precision: Literal["fp32", "bf16", "fp16", "hybrid"] = "fp32"
    weight_decay: NonNegative = 0.1
    gradient_clip: NonNegative = 1.0
    """Largest norm of the whole gradient; 0 switches clipping off."""
    beta1: Share = 0.9
    beta2: Share = 0.95
    epsilon: Rate = 1e-8


class ParallelConfig(Section):
    """The whole file."""

    tensor_parallel: TensorParallelConfig = TensorParallelConfig()
    sequence_parallel: SequenceParallelConfig = Field(
        default=SequenceParallelConfig(),
        validation_alias=AliasChoices("sequence_parallel", "context_parallel"),
    )
    pipeline: PipelineConfig = PipelineConfig()
    data_parallel: DataParallelConfig = DataParallelConfig()
    expert_parallel: ExpertParallelConfig = ExpertParallelConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def layout(self) -> Layout:
        """How the world's ranks are laid out on the axes."""
        return Layout(
            pp=self.pipeline.stages,
            dp=self.data_parallel.size,
            sp=self.sequence_parallel.size,
            tp=self.tensor_parallel.size,
        )

    @property
    def micro_batches(self) -> int:
        """Micro-batches a step and replica."""
        if isinstance(self.pipeline.micro_batch, int):
            return self.pipeline.micro_batch
        if self.pipeline.micro_batch_size is not None:
            return self.replica_batch // self.pipeline.micro_batch_size
        return self.pipeline.stages

    @property
    def replica_batch(self) -> int:
        """Sequences a step and replica."""
        return self.training.batch // self.data_parallel.size

    @property
    def micro_batch_size(self) -> int:
        """Sequences in a micro-batch."""
        return self.replica_batch // self.micro_batches
