"""Which schedule runs a call: the one asked for, or one chosen by size and number of ranks."""

import hashlib
from dataclasses import replace
from pathlib import Path

from hcom.algorithms import build
from hcom.schedule import Schedule, check, parse

# Up to here each rank sends all its data to every other one, in a single round: latency counts.
ONE_SHOT_BYTES = 8192


def choose(collective: str, nbytes: int, rank_size: int) -> str:
    """Choose an algorithm where none is asked for.

    In shared memory every rank reaches every other one directly, so the mesh moves the fewest
    bytes in the fewest rounds for all collectives.
    """
    if collective == "all_reduce" and nbytes <= ONE_SHOT_BYTES and rank_size > 1:
        return "mesh(one_shot=True)"
    return "mesh"


def resolve(algorithm: str | Schedule, collective: str, rank_size: int, root: int) -> Schedule:
    """Make the schedule of a call; its name says what all ranks must agree on.

    Parameters
    ----------
    algorithm : a name, a form with options, a Schedule, or "file:" and the path of a text form.
        What a user brings is checked before it runs.

    Raises
    ------
    ValueError : unknown, or made for another collective, number of ranks or root.
    ScheduleError : the user's schedule is wrong.
    OSError : no such file.
    """
    if isinstance(algorithm, str) and not algorithm.startswith("file:"):
        return build(collective, algorithm, rank_size, root)
    if isinstance(algorithm, str):
        schedule = parse(Path(algorithm.removeprefix("file:")).read_text())
    elif isinstance(algorithm, Schedule):
        schedule = algorithm
    else:
        raise TypeError(
            f"algorithm must be a name or a Schedule, not {type(algorithm).__name__}"
            + ("; call it with hcom.rank_size()" if callable(algorithm) else "")
        )
    wanted = (collective, rank_size, root)
    found = (schedule.collective, schedule.rank_size, schedule.root)
    if found != wanted:
        raise ValueError(
            f"the schedule is for (collective, rank_size, root) = {found}, the call is {wanted}"
        )
    check(schedule)
    digest = hashlib.blake2b(str(schedule).encode(), digest_size=4).hexdigest()
    return replace(schedule, name=f"{schedule.name or 'schedule'}#{digest}")
