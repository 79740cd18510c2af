"""1F1B: one forward, one backward, after a warm-up (PipeDream-Flush, arXiv 2006.09503).

GPipe's bubble, share (p-1)/(m+p-1), but rank r keeps the inputs of min(p-r, m) micro-batches only.
"""

from parallel.pipeline.plan import Action, Plan


def one_f_one_b(stages: int, micro_batches: int) -> Plan:
    """Build 1F1B's plan for p = `stages` ranks and m = `micro_batches`."""
    rows = tuple(_row(stages - 1 - rank, micro_batches) for rank in range(stages))
    return Plan("1f1b", stages, micro_batches, 1, rows)


def _row(behind: int, micro_batches: int) -> tuple[Action, ...]:
    """Order the actions of the rank with `behind` ranks after it."""
    warm_up = min(behind, micro_batches)
    row = [Action("F", i) for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        row += [Action("F", i), Action("B", i - warm_up)]
    row += [Action("B", i) for i in range(micro_batches - warm_up, micro_batches)]
    return tuple(row)
