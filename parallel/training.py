"""One rank's share of training: a stage of the model, its optimizer, and one step of both.

B  sequences of a micro-batch      S  sequence length, of which the rank holds s = S / sp
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hcom.device import current
from parallel import pipeline
from parallel.config import ParallelConfig
from parallel.data import Batches, consecutive, corpus
from parallel.gradients import gather_sums, reduce_gradients
from parallel.layout import Mesh, stage_layers
from parallel.model import GPT, MicroBatch, Parameters, StageSaved
from parallel.optimizer import AdamW, clip_scale

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]


class StepResult(NamedTuple):
    """What a step came to: the mean loss in nats, and the norm of the gradient before clipping."""

    loss: float
    gradient_norm: float


class Training:
    """The state that training changes, and one step of it.

    Parameters
    ----------
    config : the whole configuration; the sizes of axes are taken from `mesh`.
    mesh : this rank's groups.

    Attributes
    ----------
    parameters, optimizer : what a checkpoint holds.
    """

    def __init__(self, config: ParallelConfig, mesh: Mesh) -> None:
        self.config, self.mesh = config, mesh
        self.parameters = Parameters()
        self.stage = self._stage()
        self.parameters.allocate(config.training.seed)
        self.optimizer = AdamW(self.parameters, config.training)
        self.batches = Batches(corpus()[0], config.model.sequence, config.training.seed)
        stages = mesh.pp.rank_size
        self.plan = pipeline.build(config.pipeline.schedule, stages, config.micro_batches)
        self._slots = int(mesh.pp.all_reduce(np.array([len(self.parameters)]), "max")[0])

    def step(self, step: int) -> StepResult:
        """Run one step: forward and backward of all micro-batches, reduction, update.

        Parameters
        ----------
        step : from 1 on; decides the data and the learning rate.
        """
        training, device = self.config.training, current()
        work = StageWork(self.stage, self._micro_batches(step), 1.0 / self._step_tokens)
        self.parameters.gradients.fill(0.0)
        self._run(self.plan, work)
        with device.phase("reduce"):
            loss_sum = self._reduced(np.array([work.loss_sum]))[0] if self.stage.last else 0.0
            reduce_gradients(self.parameters, self.mesh.dp_sp)
            sums = gather_sums(self.parameters, loss_sum, self.mesh.pp, self._slots)
        loss_sum, norm = sums
        with device.phase("optimizer"):
            self.optimizer.step(step, scale=clip_scale(norm, training.gradient_clip))
        return StepResult(float(loss_sum / self._step_tokens), norm)

    def evaluate(self, tokens: npt.NDArray[np.uint8]) -> float:
        """Score the model on a text, cut in sequences: nats per byte.

        A rest shorter than a sequence is left out. Replicas share the sequences out; the result
        is the same number on every rank.
        """
        inputs, targets = consecutive(tokens, self.config.model.sequence)
        own = slice(self.mesh.dp.rank, None, self.mesh.dp.rank_size)
        loss_sum = self._forward(inputs[own], targets[own])
        total = self._reduced(np.array([loss_sum if self.stage.last else 0.0]))
        return float(self.mesh.pp.all_reduce(total)[0]) / inputs.size

    @property
    def _step_tokens(self) -> int:
        """Tokens of a step over all ranks."""
        return self.config.training.batch * self.config.model.sequence

    def _stage(self) -> GPT:
        model, pp = self.config.model, self.mesh.pp
        return GPT(
            model,
            stage_layers(model.layers, pp.rank_size, pp.rank),
            first=pp.rank == 0,
            last=pp.rank == pp.rank_size - 1,
            group=self.mesh.sp,
            parameters=self.parameters,
        )

    def _micro_batches(self, step: int) -> list[MicroBatch]:
        """Draw this rank's part of the step's sequences."""
        replica_batch = self.config.training.batch // self.mesh.dp.rank_size
        size = replica_batch // self.plan.micro_batches
        first = self.mesh.dp.rank * replica_batch
        return [
            self._part(*self.batches.sequences(step, range(start, start + size)))
            for start in range(first, first + replica_batch, size)
        ]

    def _part(self, inputs_BS: Tokens, targets_BS: Tokens) -> MicroBatch:
        """Take this rank's positions of each sequence."""
        part = inputs_BS.shape[1] // self.mesh.sp.rank_size
        own = slice(self.mesh.sp.rank * part, (self.mesh.sp.rank + 1) * part)
        return MicroBatch(inputs_BS[:, own].flatten(), targets_BS[:, own].flatten())

    def _forward(self, inputs: Tokens, targets: Tokens) -> float:
        """Run sequences through the stages without a backward; a last, smaller lot goes alone."""
        size, loss_sum = self.config.micro_batch_size, 0.0
        starts = range(0, len(inputs), size)
        batches = [self._part(inputs[i : i + size], targets[i : i + size]) for i in starts]
        whole = len(inputs) // size
        for lot in (batches[:whole], batches[whole:]):
            if lot:
                work = StageWork(self.stage, lot)
                self._run(pipeline.build("forward_only", self.mesh.pp.rank_size, len(lot)), work)
                loss_sum += work.loss_sum
        return loss_sum

    def _run(self, plan: pipeline.Plan, work: "StageWork") -> None:
        shape = (work.batches[0].tokens.size, self.config.model.hidden)
        pipeline.run(plan, self.mesh.pp, [work], shape=shape)

    def _reduced(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum over the ranks that hold the same parameters."""
        group = self.mesh.dp_sp
        return group.all_reduce(x) if group.rank_size > 1 else x


class StageWork:
    """One pass of micro-batches through a stage: the functions that a pipeline's plan calls.

    Parameters
    ----------
    batches : the micro-batches of this rank.
    scale : weight of a token's loss in the gradients; 0 for a pass without backward, which keeps
        nothing.

    Attributes
    ----------
    loss_sum : sum of the tokens' losses so far, nats; 0 on all stages but the last.
    """

    def __init__(self, stage: GPT, batches: Sequence[MicroBatch], scale: float = 0.0) -> None:
        self.stage, self.batches, self.scale = stage, batches, scale
        self.loss_sum = 0.0
        self._saved: dict[int, StageSaved] = {}

    def forward(self, micro_batch: int, x: Floats | None) -> Floats | None:
        """Compute the output for the next stage; the last stage adds up its loss instead."""
        y, saved = self.stage.forward(self.batches[micro_batch], x)
        self.loss_sum += saved.loss_sum
        if self.scale:
            self._saved[micro_batch] = saved
        return y

    def backward_input(self, micro_batch: int, dy: Floats | None) -> Floats | None:
        """Compute the gradient for the stage before."""
        return self.stage.backward_input(self._saved[micro_batch], dy, self.scale)

    def backward_weight(self, micro_batch: int) -> None:
        """Add to the gradients, and let go of what forward kept."""
        self.stage.backward_weight(self._saved.pop(micro_batch))
