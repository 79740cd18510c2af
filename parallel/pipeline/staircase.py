"""The familiar staircase in text: a line a rank, time to the right."""

from parallel.pipeline.plan import Plan
from parallel.pipeline.price import Price, Slot, Times, price


def staircase(
    plan: Plan, forward: Times = 1.0, backward: Times = 2.0, transfer: float = 0.0
) -> str:
    """Draw a plan in text, with the times of `price`; dots are waiting, dashes work going on.

    1f1b: 2 stages, 2 micro-batches, makespan 9, bubble 33.3%
    0  F0 F1 ......B0--- ...B1---
    1  ...F0 B0--- F1 B1--- ......
    """
    cost = price(plan, forward, backward, transfer)
    margin, scale = len(str(plan.stages - 1)), _scale(cost)
    end = round(cost.makespan * scale)
    rows = (_row(row, scale).ljust(end, ".").rstrip() for row in cost.slots)
    return "\n".join([str(cost), *(f"{rank:>{margin}}  {row}" for rank, row in enumerate(rows))])


def _scale(cost: Price) -> float:
    """Give the characters for a unit of time: the longest label fits the shortest action."""
    slots = [slot for row in cost.slots for slot in row]
    longest = max(len(str(slot.action)) for slot in slots)
    return (longest + 1) / min(slot.end - slot.start for slot in slots)


def _row(slots: tuple[Slot, ...], scale: float) -> str:
    text = ""
    for action, start, end in slots:
        text = text.ljust(round(start * scale), ".")
        width = round(end * scale) - len(text)
        text += str(action).ljust(width - 1, "-") + " "
    return text
