"""The pipeline bubble of a run: read from the traces in device time, beside what formulas say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hcom.device import Event
from parallel.layout import Layout
from parallel.pipeline import Plan, price

Times = list[list[float]]  # stage -> seconds of each action


@dataclass(frozen=True)
class Bubble:
    """Shares of the stages' device time in which they compute nothing.

    Attributes
    ----------
    measured : 1 - busy / (stages * makespan), the mean over pipelines and steps.
    formula : (p - 1) / (m + p - 1): even stages, and messages that take no time.
    uneven : the plan priced with the stages' own times; messages still take no time.
    forward, backward : mean time of a micro-batch, s, one a stage.
    """

    measured: float
    formula: float
    uneven: float
    forward: list[float]
    backward: list[float]

    def explain(self) -> str:
        """Say in a line what makes the measured share differ from the formula's."""
        ratio = max(self.forward) / min(self.forward), max(self.backward) / min(self.backward)
        return (
            f"{self.uneven - self.formula:+.1%} as stages differ (longest to shortest: F "
            f"{ratio[0]:.2f}, B {ratio[1]:.2f}), {self.measured - self.uneven:+.1%} as messages "
            "take time"
        )


def measure(events_by_rank: Mapping[int, Sequence[Event]], layout: Layout, plan: Plan) -> Bubble:
    """Measure the bubble from the F and B phases of every rank.

    Parameters
    ----------
    events_by_rank : traces of all ranks; each step in them counts once.
    layout : tells which ranks form a pipeline.
    plan : that the pipelines ran.
    """
    shares: list[float] = []
    forward: Times = [[] for _ in range(plan.stages)]
    backward: Times = [[] for _ in range(plan.stages)]
    for ranks in layout.groups("pp"):
        rows = [_by_step(events_by_rank[rank]) for rank in ranks]
        for step in rows[0]:
            shares.append(_share([row[step] for row in rows]))
        for stage, row in enumerate(rows):
            phases = [phase for step in row.values() for phase in step]
            forward[stage] += [_length(phase) for phase in phases if phase.name[0] == "F"]
            backward[stage] += [_length(phase) for phase in phases if phase.name[0] == "B"]
    f, b = list(map(fmean, forward)), list(map(fmean, backward))
    formula = (plan.stages - 1) / (plan.micro_batches + plan.stages - 1)
    return Bubble(fmean(shares), formula, price(plan, f, b).bubble, f, b)


def _by_step(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Sort the phases of micro-batches (F0, B3) by their step."""
    steps: dict[int, list[Event]] = {}
    for event in events:
        if event.kind == "phase" and event.step >= 0 and event.name[1:].isdigit():
            steps.setdefault(event.step, []).append(event)
    return steps


def _share(stages: Sequence[Sequence[Event]]) -> float:
    """Share of waiting in one step of one pipeline."""
    phases = [phase for stage in stages for phase in stage]
    start = min(phase.device_start for phase in phases)
    makespan = max(phase.device_end for phase in phases) - start
    return 1.0 - sum(map(_length, phases)) / (len(stages) * makespan)


def _length(phase: Event) -> float:
    return phase.device_end - phase.device_start
