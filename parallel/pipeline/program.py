"""What each rank does for a plan: its actions, and the exchanges between them.

A rank is in a pause before each action and after its last one; a pause of no length is one too. A
send ends only with its receive, so both ends of a message are put where the two ranks meet: at
the first moment after it is made at which both are in a pause, with actions of nominal length. All
messages of one pause make one exchange, completed together. In 1F1B that yields Megatron's
send_forward + recv_backward and send_backward + recv_forward, and a receive no earlier than its
action needs it; nothing here knows a schedule.

Why this cannot deadlock, for any plan that `price` can simulate: where a rank waits in a pause, the
peer it waits for is still in a pause with an earlier end, and so is that one's peer, but there is
an earliest. `check` runs the result dry all the same.
"""

import functools
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from parallel.pipeline.message import Message, needed, output
from parallel.pipeline.plan import Action, Plan
from parallel.pipeline.price import Price, price


class Exchange(NamedTuple):
    """Messages that a rank sends and receives in one call."""

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]

    def __str__(self) -> str:
        parts = [f"send {message} to rank {message.dst}" for message in self.sends]
        parts += [f"receive {message} from rank {message.src}" for message in self.receives]
        return " and ".join(parts)


Step = Action | Exchange


class _Pauses(NamedTuple):
    """When a rank's pauses start and end; pause i comes before action i."""

    starts: list[float]
    ends: list[float]


@functools.lru_cache
def programs(plan: Plan) -> tuple[tuple[Step, ...], ...]:
    """Give each rank's steps: every action, and the exchanges between them.

    Raises
    ------
    PlanError
        When actions wait for each other.
    """
    nominal = price(plan, forward=plan.virtual, backward=2 * plan.virtual)  # whole numbers
    pauses = [_pauses(nominal, rank) for rank in range(plan.stages)]
    sends: list[list[list[Message]]] = [[[] for _ in row.starts] for row in pauses]
    receives: list[list[list[Message]]] = [[[] for _ in row.starts] for row in pauses]
    consumers = {
        needed(plan, rank, action): index
        for rank, row in enumerate(plan.actions)
        for index, action in enumerate(row)
    }
    for rank, row in enumerate(plan.actions):
        for index, action in enumerate(row):
            message = output(plan, rank, action)
            if message is not None and not message.is_local:
                src, dst = pauses[message.src], pauses[message.dst]
                leave, arrive = _meeting(src, index + 1, dst, consumers[message])
                sends[message.src][leave].append(message)
                receives[message.dst][arrive].append(message)
    return tuple(
        tuple(_steps(row, sends[rank], receives[rank])) for rank, row in enumerate(plan.actions)
    )


def _pauses(nominal: Price, rank: int) -> _Pauses:
    slots = nominal.slots[rank]
    starts = [0.0, *(slot.end for slot in slots)]
    return _Pauses(starts, [*(slot.start for slot in slots), float("inf")])


def _meeting(sender: _Pauses, made: int, receiver: _Pauses, wanted: int) -> tuple[int, int]:
    """Find the pauses of sender and receiver in which a message moves.

    The sender's is the first from `made` that overlaps one of the receiver's up to `wanted`, the
    receiver's the last that it overlaps. Where none does, the sender waits after making it.
    """
    for leave in range(made, len(sender.starts)):
        arrive = min(wanted, bisect_right(receiver.starts, sender.ends[leave]) - 1)
        if receiver.ends[arrive] >= sender.starts[leave]:
            return leave, arrive
    return made, bisect_left(receiver.starts, sender.starts[made])


def _steps(
    row: tuple[Action, ...], sends: list[list[Message]], receives: list[list[Message]]
) -> list[Step]:
    steps: list[Step] = []
    for pause, (leaving, entering) in enumerate(zip(sends, receives, strict=True)):
        if leaving or entering:
            steps.append(Exchange(tuple(leaving), tuple(entering)))
        steps += row[pause : pause + 1]
    return steps
