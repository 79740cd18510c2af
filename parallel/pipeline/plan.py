"""The plan: who computes which micro-batch when, as a plain value with a text form.

Building never judges; `check` does. A plan reads and prints like this, a line a stage rank:

    1f1b stages=2 micro_batches=2 virtual=1
    0: F0 F1 B0 B1
    1: F0 B0 F1 B1
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Kind = Literal["F", "B", "W"]
"""F forward; B backward; where a plan has W, B is the input half and W the weight half."""


class PlanError(ValueError):
    """A plan that cannot be run, or a text that is no plan."""


class Action(NamedTuple):
    """One piece of work of a stage rank; it prints as F0, and as F0.1 on chunk 1.

    Parameters
    ----------
    kind : F, B or W.
    micro_batch : which micro-batch, from 0.
    chunk : which of the rank's chunks of layers, from 0.
    """

    kind: Kind
    micro_batch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch}" + (f".{self.chunk}" if self.chunk else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline schedule.

    Parameters
    ----------
    name : of the schedule, "1f1b".
    stages : ranks of the pipeline.
    micro_batches : micro-batches a step.
    virtual : chunks of layers a rank holds. Chunk c of rank r is virtual stage c * stages + r
        of `depth`: the layers go round the ranks.
    actions : for each rank, what it does in order.
    """

    name: str
    stages: int
    micro_batches: int
    virtual: int
    actions: tuple[tuple[Action, ...], ...]

    @property
    def depth(self) -> int:
        """Virtual stages in all."""
        return self.stages * self.virtual

    def has(self, kind: Kind) -> bool:
        """Tell whether the plan has an action of a kind."""
        return any(action.kind == kind for row in self.actions for action in row)

    @property
    def splits_backward(self) -> bool:
        """Tell whether B is the input half only, with W apart."""
        return self.has("W")

    def virtual_stage(self, rank: int, chunk: int) -> int:
        """Tell the place of a rank's chunk in the model, from 0."""
        return chunk * self.stages + rank

    def holder(self, virtual_stage: int) -> tuple[int, int]:
        """Tell the rank and chunk that hold a virtual stage."""
        chunk, rank = divmod(virtual_stage, self.stages)
        return rank, chunk

    def __str__(self) -> str:
        head = (
            f"{self.name} stages={self.stages} micro_batches={self.micro_batches} "
            f"virtual={self.virtual}"
        )
        rows = (f"{rank}: {' '.join(map(str, row))}" for rank, row in enumerate(self.actions))
        return "\n".join([head, *rows])


_HEAD = re.compile(r"(\S+) stages=(\d+) micro_batches=(\d+) virtual=(\d+)")
_ACTION = re.compile(rf"([{''.join(get_args(Kind))}])(\d+)(?:\.(\d+))?")


def parse(text: str) -> Plan:
    """Read the text form of a plan back.

    Raises
    ------
    PlanError
        Naming the line that is no part of a plan.
    """
    head, *rows = text.strip().splitlines() or [""]
    found = _HEAD.fullmatch(head.strip())
    if found is None:
        raise PlanError(
            f"{head!r} is no head of a plan; expected `name stages=4 micro_batches=8 virtual=1`"
        )
    stages, micro_batches, virtual = map(int, found.groups()[1:])
    actions = tuple(_parse_row(row, rank) for rank, row in enumerate(rows))
    return Plan(found[1], stages, micro_batches, virtual, actions)


def _parse_row(row: str, rank: int) -> tuple[Action, ...]:
    label, _, body = row.partition(":")
    if label.strip() != str(rank):
        raise PlanError(f"{row!r} is not the line of rank {rank}; expected `{rank}: F0 B0`")
    return tuple(_parse_action(word, row) for word in body.split())


def _parse_action(word: str, row: str) -> Action:
    found = _ACTION.fullmatch(word)
    if found is None:
        raise PlanError(f"{word!r} in {row!r} is no action; expected F0, B3, W1, or F0.1 (chunk 1)")
    kind: Kind = found[1]  # type: ignore[assignment]  # the pattern holds exactly the kinds
    return Action(kind, int(found[2]), int(found[3] or 0))
