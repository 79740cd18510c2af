"""Check a plan: complete, in an order that can be run, free of deadlock, within memory."""

from collections import Counter
from collections.abc import Sequence

from parallel.pipeline.memory import peak_in_flight
from parallel.pipeline.plan import Action, Kind, Plan, PlanError
from parallel.pipeline.program import programs
from parallel.pipeline.progress import check_progress


def check(plan: Plan, memory: Sequence[int] | None = None) -> None:
    """Refuse a plan that cannot be run, or whose gradients would depend on it.

    - Every rank has each F once, each B once or none at all, each W once or none at all.
    - On a rank, F comes before B before W, and a chunk's gradients are added in the order of the
      micro-batches, so that their bits are the same for every plan.
    - Ranks do not wait for each other: neither actions, nor the exchanges between them when a send
      ends only with its receive.

    Parameters
    ----------
    plan : of `build` or `parse`.
    memory : for each rank, the most stage inputs it may keep (see `peak_in_flight`).

    Raises
    ------
    PlanError
        Naming plan, rank and action.
    """
    if len(plan.actions) != plan.stages:
        raise PlanError(f"plan {plan.name} has {len(plan.actions)} rows for {plan.stages} stages")
    for rank in range(plan.stages):
        _check_complete(plan, rank)
        _check_order(plan, rank)
    check_progress(programs(plan))
    if memory is not None:
        _check_memory(plan, memory)


def _problem(plan: Plan, rank: int, text: str) -> PlanError:
    return PlanError(f"plan {plan.name}, rank {rank}: {text}")


def _check_complete(plan: Plan, rank: int) -> None:
    kinds: list[Kind] = ["F", *(kind for kind in ("B", "W") if plan.has(kind))]
    expected = {
        Action(kind, micro_batch, chunk)
        for kind in kinds
        for micro_batch in range(plan.micro_batches)
        for chunk in range(plan.virtual)
    }
    counts = Counter(plan.actions[rank])
    for action, count in counts.items():
        if action not in expected:
            sizes = f"{plan.micro_batches} micro-batches and {plan.virtual} chunks"
            raise _problem(plan, rank, f"{action} is outside {sizes}")
        if count > 1:
            raise _problem(plan, rank, f"{action} comes {count} times")
    for action in sorted(expected - counts.keys()):
        raise _problem(plan, rank, f"{action} is missing")


def _check_order(plan: Plan, rank: int) -> None:
    gradient: Kind = "W" if plan.splits_backward else "B"
    before: dict[Kind, Kind] = {"B": "F", "W": "B"}
    done: set[Action] = set()
    added = dict.fromkeys(range(plan.virtual), -1)
    for action in plan.actions[rank]:
        first = action._replace(kind=before.get(action.kind, action.kind))
        if first != action and first not in done:
            raise _problem(plan, rank, f"{action} comes before {first}")
        if action.kind == gradient and action.micro_batch != added[action.chunk] + 1:
            late = action._replace(micro_batch=added[action.chunk] + 1)
            text = "gradients are added in the order of the micro-batches"
            raise _problem(plan, rank, f"{action} comes before {late}; {text}")
        added[action.chunk] += action.kind == gradient
        done.add(action)


def _check_memory(plan: Plan, memory: Sequence[int]) -> None:
    for rank, (peak, limit) in enumerate(zip(peak_in_flight(plan), memory, strict=True)):
        if peak > limit:
            text = f"{peak} stage inputs are kept at once; the limit is {limit}"
            raise _problem(plan, rank, text)
