"""The table of pipeline schedules: a new one is a file with a function, and a line here."""

from collections.abc import Callable

from parallel.pipeline.forward_only import forward_only
from parallel.pipeline.gpipe import gpipe
from parallel.pipeline.one_f_one_b import one_f_one_b
from parallel.pipeline.plan import Plan

TABLE: dict[str, Callable[[int, int], Plan]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "forward_only": forward_only,
}


def build(name: str, stages: int, micro_batches: int) -> Plan:
    """Build the plan of a schedule.

    Parameters
    ----------
    name : a key of TABLE.
    stages : ranks of the pipeline, p.
    micro_batches : micro-batches a step, m; fewer than stages is fine.

    Raises
    ------
    ValueError
        When there is no such schedule, or a size is below 1.
    """
    if name not in TABLE:
        raise ValueError(f"no pipeline schedule {name!r}; there are {', '.join(TABLE)}")
    if stages < 1 or micro_batches < 1:
        raise ValueError(f"sizes start at 1 ({stages=}, {micro_batches=})")
    return TABLE[name](stages, micro_batches)
