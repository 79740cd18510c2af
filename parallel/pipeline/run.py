"""Run this rank's part of a plan on a group of stage ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import DTypeLike, NDArray

from hcom.device import Device, current
from parallel.pipeline.message import Message, needed, output
from parallel.pipeline.plan import Action, Plan
from parallel.pipeline.program import Exchange, programs

Array = NDArray[Any]


class StageFunctions(Protocol):
    """The work of one chunk of layers; what it saves between calls is its own affair."""

    def forward(self, micro_batch: int, x: Array | None) -> Array | None:
        """Compute a micro-batch's output for the next stage, which the last stage has none of.

        `x` is the stage before's output; None on the first stage.
        """

    def backward_input(self, micro_batch: int, dy: Array | None) -> Array | None:
        """Compute the gradient for the stage before, which the first stage has none of.

        `dy` is the gradient of forward's output; None on the last stage.
        """

    def backward_weight(self, micro_batch: int) -> None:
        """Add the micro-batch's share to the gradients of the weights."""


class StageGroup(Protocol):
    """The part of an hcom group that a pipeline uses: rank r holds the plan's row r."""

    @property
    def rank(self) -> int:
        """Own rank in the group."""

    def batch_send_recv(self, operations: Sequence[tuple[str, Array, int, int]]) -> None:
        """Complete all of ("send" or "recv", array, peer, tag) together."""


def run(
    plan: Plan,
    group: StageGroup,
    chunks: Sequence[StageFunctions],
    *,
    shape: tuple[int, ...],
    dtype: DTypeLike = "float32",
) -> None:
    """Execute this rank's actions in order, with the exchanges they need.

    Each action is a phase in the device's trace. Weight gradients are added in the order of the
    plan, which `check` has seen to be that of the micro-batches: their bits do not depend on it.

    Parameters
    ----------
    plan : a checked plan for as many stages as the group has ranks.
    group : the ranks of the pipeline.
    chunks : the rank's `plan.virtual` chunks of layers.
    shape, dtype : of every activation and gradient between stages.

    Raises
    ------
    ValueError
        When the number of chunks is not the plan's, or a stage's result is not of that shape.
    """
    if len(chunks) != plan.virtual:
        raise ValueError(f"plan {plan.name} has {plan.virtual} chunks a rank, {len(chunks)} came")
    worker = _Worker(plan, group, chunks, shape, dtype, current())
    for step in programs(plan)[group.rank]:
        if isinstance(step, Exchange):
            worker.exchange(step)
        else:
            worker.act(step)


@dataclass(slots=True)
class _Worker:
    """A rank at work: `held` is what waits here to be consumed or sent."""

    plan: Plan
    group: StageGroup
    chunks: Sequence[StageFunctions]
    shape: tuple[int, ...]
    dtype: DTypeLike
    device: Device
    held: dict[Message, Array] = field(default_factory=dict)

    def exchange(self, exchange: Exchange) -> None:
        """Send and receive together; what was sent is let go."""
        operations = [("send", self.held.pop(m), m.dst, m.tag) for m in exchange.sends]
        for message in exchange.receives:
            array = self.device.memory.empty(self.shape, self.dtype)
            operations.append(("recv", array, message.src, message.tag))
            self.held[message] = array
        self.group.batch_send_recv(operations)

    def act(self, action: Action) -> None:
        """Run an action inside its phase, and hold its result for the next stage."""
        rank = self.group.rank
        source, target = needed(self.plan, rank, action), output(self.plan, rank, action)
        came = self.held.pop(source) if source else None
        with self.device.phase(self._phase(action), str(action)):
            result = self._compute(action, came)
        if target is not None:
            self.held[target] = self._checked(result, action)

    def _compute(self, action: Action, came: Array | None) -> Array | None:
        """Call the stage; B runs both halves of the backward unless the plan has W apart."""
        stage, split = self.chunks[action.chunk], self.plan.splits_backward
        if action.kind == "F":
            return stage.forward(action.micro_batch, came)
        result = stage.backward_input(action.micro_batch, came) if action.kind == "B" else None
        if action.kind == "W" or not split:
            stage.backward_weight(action.micro_batch)
        return result

    def _phase(self, action: Action) -> str:
        """Name the device profile's phase: the input half alone is I in the papers."""
        return "I" if action.kind == "B" and self.plan.splits_backward else action.kind

    def _checked(self, result: Array | None, action: Action) -> Array:
        if result is None or result.shape != self.shape or result.dtype != self.dtype:
            came = "nothing" if result is None else f"{result.dtype}{result.shape}"
            raise ValueError(
                f"{action} of stage rank {self.group.rank} gave {came} for its neighbour, "
                f"which expects {self.dtype}{self.shape}"
            )
        return result
