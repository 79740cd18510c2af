"""What a rank does for a plan: its actions, and between two of them at most one exchange.

An exchange sends the result of the action before it and receives the input of the action after it,
in one call: in 1F1B that is Megatron's send_forward + recv_backward, and send_backward +
recv_forward. Apart they would deadlock, as a send ends only with its receive and two neighbours
would both send first. The rule is the same for every plan; nothing here knows a schedule.
"""

import functools
from typing import Literal, NamedTuple

from parallel.pipeline.plan import Action, Plan


class Message(NamedTuple):
    """An activation (F) or a gradient (B) of a micro-batch on its way between virtual stages.

    Parameters
    ----------
    direction : F to the next virtual stage, B to the one before.
    micro_batch : whose it is.
    receiver : virtual stage that takes it.
    src, dst : ranks; equal when both virtual stages are on one rank, and nothing is sent.
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


class Exchange(NamedTuple):
    """Messages that a rank sends and receives in one call."""

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]

    def __str__(self) -> str:
        parts = [f"send {message} to {message.dst}" for message in self.sends]
        parts += [f"receive {message} from {message.src}" for message in self.receives]
        return ", ".join(parts)


Step = Action | Exchange


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


@functools.lru_cache
def programs(plan: Plan) -> tuple[tuple[Step, ...], ...]:
    """Give each rank's steps: every action, with the exchanges it needs before and after."""
    return tuple(tuple(_program(plan, rank)) for rank in range(plan.stages))


def _program(plan: Plan, rank: int) -> list[Step]:
    steps: list[Step] = []
    leaving: Message | None = None
    for action in plan.actions[rank]:
        _append_exchange(steps, leaving, needed(plan, rank, action))
        steps.append(action)
        leaving = output(plan, rank, action)
    _append_exchange(steps, leaving, None)
    return steps


def _append_exchange(steps: list[Step], leaving: Message | None, entering: Message | None) -> None:
    sends = (leaving,) if leaving and leaving.src != leaving.dst else ()
    receives = (entering,) if entering and entering.src != entering.dst else ()
    if sends or receives:
        steps.append(Exchange(sends, receives))
