"""Whether programs come to their end when a send ends only with its receive."""

from collections.abc import Sequence

from parallel.pipeline.message import Message
from parallel.pipeline.plan import PlanError
from parallel.pipeline.program import Exchange, Step


def check_progress(programs: Sequence[Sequence[Step]]) -> None:
    """Run the programs of all ranks dry.

    An exchange ends when the other end of each of its messages is posted; actions take no time.
    What is found does not depend on the speed of ranks: an exchange that can end stays so.

    Raises
    ------
    PlanError
        When ranks wait for each other: which, in which exchange.
    """
    places = [0] * len(programs)
    posted: set[tuple[str, Message]] = set()
    moved = True
    while moved:
        moved = False
        for rank, steps in enumerate(programs):
            while places[rank] < len(steps) and _passes(steps[places[rank]], posted):
                places[rank] += 1
                moved = True
    waiting = [
        f"rank {rank} waits to {steps[place]}"
        for rank, (steps, place) in enumerate(zip(programs, places, strict=True))
        if place < len(steps)
    ]
    if waiting:
        raise PlanError(f"deadlock: {'; '.join(waiting)}")


def _passes(step: Step, posted: set[tuple[str, Message]]) -> bool:
    if not isinstance(step, Exchange):
        return True
    posted.update(("send", message) for message in step.sends)
    posted.update(("receive", message) for message in step.receives)
    awaited = {("receive", message) for message in step.sends}
    awaited |= {("send", message) for message in step.receives}
    return awaited <= posted
