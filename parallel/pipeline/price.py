"""What a plan costs: a list simulation of its actions with given times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parallel.pipeline.memory import peak_in_flight
from parallel.pipeline.message import Message, needed, output
from parallel.pipeline.plan import Action, Plan, PlanError

Times = float | Sequence[float]


class Slot(NamedTuple):
    """An action and when it runs."""

    action: Action
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Price:
    """Times of a plan, in the unit of the times that were given.

    Parameters
    ----------
    plan : what was priced.
    slots : for each rank, its actions with their times.
    in_flight : for each rank, the most stage inputs it keeps.
    """

    plan: Plan
    slots: tuple[tuple[Slot, ...], ...]
    in_flight: tuple[int, ...]

    @property
    def starts(self) -> tuple[tuple[float, ...], ...]:
        """Tell when each rank's actions start."""
        return tuple(tuple(slot.start for slot in row) for row in self.slots)

    @property
    def makespan(self) -> float:
        """Tell the time until the last action ends."""
        return max(row[-1].end for row in self.slots)

    @property
    def busy(self) -> tuple[float, ...]:
        """Tell how long each rank computes."""
        return tuple(sum(slot.end - slot.start for slot in row) for row in self.slots)

    @property
    def bubble(self) -> float:
        """Tell the share of the ranks' time in which they wait: (p-1)/(m+p-1) for even stages."""
        return 1 - sum(self.busy) / (self.plan.stages * self.makespan)

    def __str__(self) -> str:
        return (
            f"{self.plan.name}: {self.plan.stages} stages, {self.plan.micro_batches} "
            f"micro-batches, makespan {self.makespan:g}, bubble {self.bubble:.1%}"
        )


def price(plan: Plan, forward: Times = 1.0, backward: Times = 2.0, transfer: float = 0.0) -> Price:
    """Price a plan: an action starts when its rank is free and its input is there.

    Parameters
    ----------
    plan : a complete plan.
    forward, backward : time of a micro-batch on a rank's layers, or one time a rank. A chunk takes
        its share, 1 / virtual; where W is apart, B and W take half of `backward` each.
    transfer : from the end of an action until its result is on another rank; neither rank is held
        meanwhile. 1F1B pays it far more often than GPipe, as a round trip lies between the backward
        of a micro-batch and the forward `stages` further on.

    Raises
    ------
    ValueError
        When a time is not above 0 (not below 0 for `transfer`), or their number is not that of
        the ranks.
    PlanError
        When actions wait for each other: which, for what.
    """
    if transfer < 0:
        raise ValueError(f"a transfer takes no time or some, not {transfer}")
    lengths = _lengths(plan, forward, backward)
    ready: dict[Message | None, float] = {None: 0.0}
    slots: list[list[Slot]] = [[] for _ in plan.actions]
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(plan.actions):
            for action in row[len(slots[rank]) :]:
                source, target = needed(plan, rank, action), output(plan, rank, action)
                if source not in ready:
                    break
                start = max(ready[source], slots[rank][-1].end if slots[rank] else 0.0)
                end = start + lengths[rank][action.kind]
                slots[rank].append(Slot(action, start, end))
                if target is not None:
                    ready[target] = end if target.is_local else end + transfer
                moved = True
    if waiting := _waiting(plan, slots):
        raise PlanError(f"plan {plan.name}: actions wait for each other: {'; '.join(waiting)}")
    return Price(plan, tuple(map(tuple, slots)), peak_in_flight(plan))


def _waiting(plan: Plan, slots: list[list[Slot]]) -> list[str]:
    """Say for each rank that has not come to its end what it waits for."""
    lines = []
    for rank, row in enumerate(plan.actions):
        if len(slots[rank]) < len(row):
            action = row[len(slots[rank])]
            lines.append(f"rank {rank} waits for {needed(plan, rank, action)} before {action}")
    return lines


def _lengths(plan: Plan, forward: Times, backward: Times) -> list[dict[str, float]]:
    """Give the time of an action of each kind, for each rank."""
    parts = 2 * plan.virtual if plan.splits_backward else plan.virtual
    return [
        {"F": f / plan.virtual, "B": b / parts, "W": b / parts}
        for f, b in zip(_each(plan, forward), _each(plan, backward), strict=True)
    ]


def _each(plan: Plan, times: Times) -> Sequence[float]:
    each = [times] * plan.stages if isinstance(times, int | float) else times
    if len(each) != plan.stages:
        raise ValueError(f"{len(each)} times came for {plan.stages} stages; give one, or as many")
    if min(each) <= 0:
        raise ValueError(f"an action takes time, not {min(each)}")
    return each
