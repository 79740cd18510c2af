"""The table of algorithms, and `build`, which makes a schedule from a name."""

import ast
import dataclasses
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hcom.schedule import COLLECTIVES, ROOTED, Schedule, sliced

Builder = Callable[..., Schedule]

# A new algorithm is one file in this folder and one line here. The file has a function for each
# collective, of its name, which takes the rank size, the root where the collective has one, and
# its options by keyword, each with a default that works for every rank count.
ALGORITHMS = (
    "ring",
    "mesh",
    "rhd",
    "tree",
    "nhr",
    "nhr_v1",
    "nb",
    "pipeline",
    "ahc",
    "hierarchical",
    "star",
    "pairwise",
    "bruck",
)

TABLE: dict[tuple[str, str], Builder] = {
    (collective, name): getattr(module, collective)
    for name in ALGORITHMS
    for module in [import_module(f"hcom.algorithms.{name}")]
    for collective in COLLECTIVES
    if hasattr(module, collective)
}


def algorithms(collective: str) -> list[str]:
    """Name the algorithms of a collective."""
    return [name for known, name in TABLE if known == collective]


def options(collective: str, algorithm: str) -> dict[str, Any]:
    """Give the options of an algorithm, with their defaults."""
    parameters = inspect.signature(TABLE[collective, algorithm]).parameters.values()
    own = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {**own, "slices": 1}


def split_options(text: str) -> tuple[str, dict[str, Any]]:
    """Split an options form, such as "hierarchical(intra_group_size=8)", in name and options.

    Raises
    ------
    ValueError : it is not of that form.
    """
    form = f"an algorithm is a name, or like 'mesh(one_shot=True)', not {text!r}"
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if isinstance(call, ast.Name):
            return call.id, {}
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError(form)
        return call.func.id, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(form) from None


def build(collective: str, algorithm: str, rank_size: int, root: int = 0, **given: Any) -> Schedule:
    """Make the schedule of one collective by one algorithm.

    Parameters
    ----------
    collective : one of `hcom.schedule.COLLECTIVES`.
    algorithm : a name in the table, or an options form ("mesh(one_shot=True)").
    rank_size : number of ranks, at least 1.
    root : the root's rank, where the collective has one.
    given : the algorithm's options; `slices` (1) is one of every algorithm: the schedule runs as
        a software pipeline of so many slices.

    Raises
    ------
    ValueError : a name, rank size, root or option that does not exist; the text says which do.
    """
    name, written = split_options(algorithm)
    given = {**written, **given}
    if collective not in COLLECTIVES:
        raise ValueError(f"no collective {collective!r}; there are: {', '.join(COLLECTIVES)}")
    if (collective, name) not in TABLE:
        known = ", ".join(algorithms(collective))
        raise ValueError(f"no algorithm {name!r} for {collective}; there are: {known}")
    known_options = options(collective, name)
    for option in given:
        if option not in known_options:
            known = ", ".join(known_options)
            raise ValueError(f"{name} {collective} has no option {option!r}; it has: {known}")
    if rank_size < 1:
        raise ValueError(f"rank_size is at least 1, not {rank_size}")
    if not 0 <= root < rank_size:
        raise ValueError(f"root is a rank, 0 to {rank_size - 1}, not {root}")
    if root and collective not in ROOTED:
        raise ValueError(f"{collective} has no root: leave it at 0, not {root}")
    return _build(collective, name, (rank_size, root), given)


def _build(collective: str, name: str, place: tuple[int, int], given: dict[str, Any]) -> Schedule:
    own = {option: value for option, value in given.items() if option != "slices"}
    arguments = place if collective in ROOTED else place[:1]
    schedule = sliced(TABLE[collective, name](*arguments, **own), given.get("slices", 1))
    form = ", ".join(f"{option}={value!r}" for option, value in given.items())
    return dataclasses.replace(schedule, name=f"{name}({form})" if form else name)
