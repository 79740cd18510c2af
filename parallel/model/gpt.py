"""The part of a GPT that one pipeline stage holds: pre-norm blocks of attention and feed-forward.

The first stage begins with the embedding, the last ends with the final norm, the head and the loss;
the two tables are not tied. Names of parameters count layers over the whole model, so a tensor has
one name in every layout.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from parallel.config import ModelConfig
from parallel.group import Group
from parallel.model.activation import GELU, SwiGLU
from parallel.model.attention import Attention
from parallel.model.embedding import Embedding, Tokens
from parallel.model.layer import Chain, ChainSaved, Floats, Layer, Residual
from parallel.model.linear import Linear
from parallel.model.loss import LossSaved, cross_entropy, cross_entropy_backward
from parallel.model.norm import RMSNorm
from parallel.model.parameters import Parameters

STD = 0.02  # of weights at the start (Radford et al. 2019)


class MicroBatch(NamedTuple):
    """Tokens and their targets, (T,) int64 each: this rank's positions, sequence by sequence."""

    tokens: Tokens
    targets: Tokens


@dataclass
class StageSaved:
    """What one micro-batch left behind in a stage.

    Attributes
    ----------
    loss_sum : sum of the tokens' losses in nats; 0 on all stages but the last.
    dy, dx : what the body received and gave in `backward_input`.
    """

    batch: MicroBatch
    body: ChainSaved
    loss: LossSaved | None = None
    loss_sum: float = 0.0
    dy: Floats = field(init=False)
    dx: Floats = field(init=False)


class GPT:
    """One stage of the model.

    Parameters
    ----------
    config : sizes of the whole model.
    layers : numbers of the blocks that this stage holds, in order.
    first, last : whether the stage holds the embedding, and the head.
    group : the ranks that share the sequence.
    parameters : where the tensors are declared; `parameters.allocate` must follow.
    """

    def __init__(
        self,
        config: ModelConfig,
        layers: Iterable[int],
        *,
        first: bool,
        last: bool,
        group: Group,
        parameters: Parameters,
    ) -> None:
        hidden, vocab = config.hidden, config.vocab
        self.first, self.last = first, last
        if first:
            self.embedding = Embedding(parameters, "embedding", (vocab, hidden), STD)
        body = [part for index in layers for part in block(config, index, group, parameters)]
        if last:
            body.append(RMSNorm(parameters, "final_norm", hidden))
            body.append(Linear(parameters, "head", (hidden, vocab), STD))
        self.body = Chain(*body)

    def forward(self, batch: MicroBatch, x: Floats | None) -> tuple[Floats | None, StageSaved]:
        """Run the stage on one micro-batch.

        Parameters
        ----------
        batch : the first stage reads its tokens, the last its targets.
        x : (T, D) from the stage before; None on the first stage.

        Returns
        -------
        (T, D) for the next stage, None on the last stage; and what backward needs.
        """
        y, body = self.body.forward(self.embedding.forward(batch.tokens) if x is None else x)
        saved = StageSaved(batch, body)
        if not self.last:
            return y, saved
        saved.loss_sum, saved.loss = cross_entropy(y, batch.targets)
        return None, saved

    def backward_input(self, saved: StageSaved, dy: Floats | None, scale: float) -> Floats | None:
        """Compute the gradient for the stage before; None on the first stage.

        Parameters
        ----------
        dy : (T, D) from the next stage; None on the last stage, which begins with its loss.
        scale : weight of a token's loss: one over the number of tokens in the step, of all ranks.
        """
        if saved.loss is not None:
            dy = cross_entropy_backward(saved.loss, scale)
        assert dy is not None
        saved.dy, saved.dx = dy, self.body.backward_input(saved.body, dy)
        return None if self.first else saved.dx

    def backward_weight(self, saved: StageSaved) -> None:
        """Add the micro-batch's gradients to the buffers; comes after `backward_input`."""
        self.body.backward_weight(saved.body, saved.dy)
        if self.first:
            self.embedding.backward_weight(saved.batch.tokens, saved.dx)


def block(
    config: ModelConfig, index: int, group: Group, parameters: Parameters
) -> tuple[Layer, Layer]:
    """Make one block: the attention and the feed-forward part, each around a residual."""
    return (
        Residual(*_attention(config, f"layers.{index}.attention", group, parameters)),
        Residual(*_feed_forward(config, f"layers.{index}.feed_forward", parameters)),
    )


def _attention(
    config: ModelConfig, name: str, group: Group, parameters: Parameters
) -> tuple[Layer, ...]:
    hidden, heads = config.hidden, config.heads
    return (
        RMSNorm(parameters, f"{name}.norm", hidden),
        Linear(parameters, f"{name}.qkv", (hidden, 3 * hidden), STD),
        Attention(heads, hidden // heads, config.sequence, group),
        Linear(parameters, f"{name}.out", (hidden, hidden), _branch_std(config)),
    )


def _feed_forward(config: ModelConfig, name: str, parameters: Parameters) -> tuple[Layer, ...]:
    hidden, width = config.hidden, config.feed_forward_width
    gated = config.feed_forward == "swiglu"
    return (
        RMSNorm(parameters, f"{name}.norm", hidden),
        Linear(parameters, f"{name}.up", (hidden, 2 * width if gated else width), STD),
        SwiGLU() if gated else GELU(),
        Linear(parameters, f"{name}.down", (width, hidden), _branch_std(config)),
    )


def _branch_std(config: ModelConfig) -> float:
    """Deviation of the weights that end a branch: 2 layers branches add up to STD's variance."""
    return STD / math.sqrt(2 * config.layers)
