"""How many stage inputs a plan makes each rank keep: its activation memory, in chunks of layers."""

from parallel.pipeline.plan import Plan


def peak_in_flight(plan: Plan) -> tuple[int, ...]:
    """Count, for each rank, the most micro-batch chunks between their F and their B.

    A plan without backwards keeps an input only while it computes: 1. What a split plan's W still
    needs after B is not counted, as in the zero-bubble papers.
    """
    if not plan.has("B"):
        return (1,) * plan.stages
    peaks = []
    for row in plan.actions:
        now = peak = 0
        for action in row:
            now += {"F": 1, "B": -1, "W": 0}[action.kind]
            peak = max(peak, now)
        peaks.append(peak)
    return tuple(peaks)
