"""Forwards alone: what a validation pass runs."""

from parallel.pipeline.plan import Action, Plan


def forward_only(stages: int, micro_batches: int) -> Plan:
    """Build the plan of m = `micro_batches` forwards through p = `stages` ranks."""
    row = tuple(Action("F", i) for i in range(micro_batches))
    return Plan("forward_only", stages, micro_batches, 1, (row,) * stages)
