"""A message of a pipeline: what goes from one virtual stage to the next, or back."""

from typing import Literal, NamedTuple

from parallel.pipeline.plan import Action, Plan


class Message(NamedTuple):
    """An activation (F) or a gradient (B) of a micro-batch on its way between virtual stages.

    Parameters
    ----------
    direction : F to the next virtual stage, B to the one before.
    micro_batch : whose it is.
    receiver : virtual stage that takes it.
    src, dst : ranks that hold the two virtual stages.
    tag : a number of its own, as two messages between two ranks may overtake each other: with two
        ranks of two chunks each, the next and the previous rank are the same one.
    """

    direction: Literal["F", "B"]
    micro_batch: int
    receiver: int
    src: int
    dst: int
    tag: int

    def __str__(self) -> str:
        return f"{self.direction}{self.micro_batch}>{self.receiver}"

    @property
    def is_local(self) -> bool:
        """Tell whether both virtual stages are on one rank, so that nothing is sent."""
        return self.src == self.dst


def output(plan: Plan, rank: int, action: Action) -> Message | None:
    """Tell the message that an action gives rise to; None at an end of the model, and for W."""
    here = plan.virtual_stage(rank, action.chunk)
    if action.kind == "F" and here + 1 < plan.depth:
        return _message(plan, "F", action.micro_batch, here, here + 1)
    if action.kind == "B" and here > 0:
        return _message(plan, "B", action.micro_batch, here, here - 1)
    return None


def needed(plan: Plan, rank: int, action: Action) -> Message | None:
    """Tell the message that an action consumes; None at an end of the model, and for W."""
    here = plan.virtual_stage(rank, action.chunk)
    if action.kind == "F" and here > 0:
        return _message(plan, "F", action.micro_batch, here - 1, here)
    if action.kind == "B" and here + 1 < plan.depth:
        return _message(plan, "B", action.micro_batch, here + 1, here)
    return None


def _message(
    plan: Plan, direction: Literal["F", "B"], micro_batch: int, sender: int, receiver: int
) -> Message:
    src, _ = plan.holder(sender)
    dst, _ = plan.holder(receiver)
    tag = 2 * (receiver * plan.micro_batches + micro_batch) + (direction == "B")
    return Message(direction, micro_batch, receiver, src, dst, tag)
