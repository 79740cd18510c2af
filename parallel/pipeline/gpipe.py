"""GPipe: all forwards, then all backwards (arXiv 1811.06965).

Bubble (p-1)(TF+TB), share (p-1)/(m+p-1); every rank keeps the inputs of all m micro-batches.
"""

from parallel.pipeline.plan import Action, Plan


def gpipe(stages: int, micro_batches: int) -> Plan:
    """Build GPipe's plan for p = `stages` ranks and m = `micro_batches`."""
    order = range(micro_batches)
    row = (*(Action("F", i) for i in order), *(Action("B", i) for i in order))
    return Plan("gpipe", stages, micro_batches, 1, (row,) * stages)
