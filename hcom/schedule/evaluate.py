"""The numeric oracle: runs a schedule on arrays in one process, in the order that is promised.

All operands of one position in a round, its own value at its rank's place, fold from left to
right by rank, then in listed order: fp16 and bf16 in fp32, with one rounding at the round's end.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hcom.schedule.layout import ALIGN, Layout
from hcom.schedule.meaning import BLOCKED, NOTHING, after, before
from hcom.schedule.value import IntArray, Round, Schedule

Array = npt.NDArray[Any]
Fold = Callable[[Array, Array], Array]
FOLDS: dict[str, Fold] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "avg": np.add,
}
NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class Symbol(str):
    """A value without a number: adding two of them writes down the sum.

    `evaluate(schedule, symbols(schedule))` prints the order of every addition.
    """

    __slots__ = ()

    def __add__(self, other: str) -> "Symbol":
        return Symbol(f"({self} + {other})")


def symbols(schedule: Schedule) -> list[Array]:
    """Give inputs of one symbol a position: `x2` is rank 2's, `x2[5]` where there are several."""
    one = schedule.num_chunks == 1
    return [
        np.array([Symbol(f"x{r}" if one else f"x{r}[{c}]") for c in np.flatnonzero(row)], object)
        for r, row in enumerate(before(schedule))
    ]


def evaluate(
    schedule: Schedule,
    inputs: Sequence[Array | None],
    op: str = "sum",
    counts: npt.ArrayLike | None = None,
) -> list[Array]:
    """Run a checked schedule on one-dimensional arrays.

    Parameters
    ----------
    inputs : each rank's input; None, or anything, where the collective reads none.
    op : "sum", "prod", "max", "min", or "avg" (sum, then a division in fp32 or wider).
    counts : elements of each block (rank_size,), or for all_to_all from row r to column d
        (rank_size, rank_size); an even split by default.

    Returns
    -------
    Each rank's output, empty where it gets none.

    Raises
    ------
    ValueError : an unknown op, an input that is missing, or sizes that the collective cannot have.
    """
    origins = after(schedule)[0]
    places = {r: np.flatnonzero(row) for r, row in enumerate(before(schedule)) if row.any()}
    if op not in FOLDS:
        raise ValueError(f"op is one of {', '.join(FOLDS)}, not {op!r}")
    if len(inputs) != schedule.rank_size or any(inputs[rank] is None for rank in places):
        raise ValueError(f"{schedule.collective} reads the inputs of ranks {list(places)}")
    given = {rank: np.asarray(inputs[rank]) for rank in places}
    kind = given[next(iter(given))].dtype
    width = ALIGN if kind.hasobject else kind.itemsize  # a symbol fills a position of its own
    size = Layout.of(schedule, _bytes(schedule, list(given.values()), counts, width)).size // width
    held: dict[tuple[int, int], Array] = {}
    for rank, at in places.items():
        pieces = np.split(given[rank], np.cumsum(size[rank, at])[:-1])
        held.update(zip(((rank, chunk) for chunk in at.tolist()), pieces, strict=True))
    for round in schedule.rounds:
        _apply(round, held, FOLDS[op])
    empty = np.empty(0, kind)
    results = [
        np.concatenate([empty, *(held[rank, c] for c in np.flatnonzero(row != NOTHING).tolist())])
        for rank, row in enumerate(origins)
    ]
    return [_mean(y, schedule.rank_size) for y in results] if op == "avg" else results


def _apply(round: Round, held: dict[tuple[int, int], Array], fold: Fold) -> None:
    arriving = defaultdict(list)
    for src, dst, here, there, reduce, _ in round.singles():
        arriving[dst, there].append((src, reduce, held[src, here]))
    for (dst, there), operands in arriving.items():
        if operands[0][1]:
            operands.insert(0, (dst, True, held[dst, there]))
        operands.sort(key=lambda operand: operand[0])  # stable: listed order within a rank
        held[dst, there] = _fold([value for _, _, value in operands], fold)


def _fold(values: list[Array], fold: Fold) -> Array:
    kind = values[0].dtype
    if len(values) == 1:
        return values[0]
    wide = [v.astype(np.float32) for v in values] if kind in NARROW else values
    # What does not fit becomes infinite, as on a rank, without a word.
    with np.errstate(over="ignore", invalid="ignore"):
        return functools.reduce(fold, wide).astype(kind)


def _mean(x: Array, rank_size: int) -> Array:
    wide = x.astype(np.float32) if x.dtype in NARROW else x
    return (wide / wide.dtype.type(rank_size)).astype(x.dtype)


def _bytes(
    schedule: Schedule, given: list[Array], counts: npt.ArrayLike | None, width: int
) -> int | IntArray:
    """Find what `Layout.of` needs: given counts, or the inputs' own sizes."""
    if counts is not None:
        return np.asarray(counts, np.int64) * width
    sizes = np.array([x.size for x in given])
    if schedule.collective in ("all_gather", "gather"):
        return sizes * width
    blocks = schedule.rank_size if schedule.collective in BLOCKED else 1
    if (sizes != sizes[0]).any() or sizes[0] % blocks:
        what = f"{blocks} equal blocks" if blocks > 1 else "equal inputs"
        raise ValueError(f"{schedule.collective} needs {what}, got {sizes.tolist()} elements")
    return int(sizes[0]) * width
