"""Plans of schedules that have no builder yet, from the published order rules.

Zero bubble (arXiv 2401.10241) as listed for four stages; interleaved 1F1B as Megatron-LM orders it:
groups of `group` micro-batches go through all chunks, backwards take the chunks reversed.
"""

from parallel.pipeline import Action, Plan, parse

ZB_H1 = parse(
    """zb-h1 stages=4 micro_batches=8 virtual=1
    0: F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 B5 W5 B6 W6 B7 W7
    1: F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7
    2: F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 B7 W5 W6 W7
    3: F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 W5 W6 W7"""
)
ZB_H2 = parse(
    """zb-h2 stages=4 micro_batches=8 virtual=1
    0: F0 F1 F2 F3 F4 F5 F6 B0 W0 F7 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7
    1: F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 W0 F7 B3 W1 B4 W2 B5 W3 B6 W4 B7 W5 W6 W7
    2: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 W0 F7 B5 W1 B6 W2 B7 W3 W4 W5 W6 W7
    3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 W0 F7 B7 W1 W2 W3 W4 W5 W6 W7"""
)


def interleaved(stages, virtual, micro_batches, group=None):
    group = group or stages
    table = [
        (micro_batch, chunk)
        for first in range(0, micro_batches, group)
        for chunk in range(virtual)
        for micro_batch in range(first, min(micro_batches, first + group))
    ]
    forwards = [Action("F", micro_batch, chunk) for micro_batch, chunk in table]
    backwards = [Action("B", micro_batch, virtual - 1 - chunk) for micro_batch, chunk in table]
    rows = []
    for rank in range(stages):
        warm_up = min(2 * (stages - 1 - rank) + (virtual - 1) * group, len(table))
        row = forwards[:warm_up]
        for pair in zip(forwards[warm_up:], backwards, strict=False):
            row += pair
        rows.append((*row, *backwards[len(table) - warm_up :]))
    return Plan("interleaved", stages, micro_batches, virtual, tuple(rows))


INTERLEAVED = [
    interleaved(*sizes)
    for sizes in [(2, 2, 4), (4, 2, 8), (8, 2, 16), (2, 4, 4), (4, 4, 8), (2, 2, 5, 3)]
]
