"""The mesh of axes: which rank sits where on pp, dp, sp and tp, and each axis's groups.

tp is innermost, then sp, dp, pp (Megatron's order): the ranks that talk most are neighbours, so
they share a server.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import hcom
from parallel.group import Group

AXES = ("pp", "dp", "sp", "tp")
"""Outermost first."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the axes.

    Parameters
    ----------
    pp : pipeline stages.
    dp : data-parallel replicas.
    sp : ranks that share the tokens of a sequence.
    tp : ranks that share the weights of a layer.

    Raises
    ------
    ValueError
        When a size is below 1.
    """

    pp: int = 1
    dp: int = 1
    sp: int = 1
    tp: int = 1

    def __post_init__(self) -> None:
        for axis in AXES:
            if self.size(axis) < 1:
                raise ValueError(f"axis {axis} has size {self.size(axis)}; sizes start at 1")

    def size(self, axis: str) -> int:
        """Tell the size of one axis."""
        if axis not in AXES:
            raise ValueError(f"no axis {axis!r}; the axes are {', '.join(AXES)}")
        return int(getattr(self, axis))

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.pp * self.dp * self.sp * self.tp

    def coordinates(self, rank: int) -> dict[str, int]:
        """Tell the place of a rank on every axis."""
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is outside a world of {self.world_size} ranks")
        place = {}
        for axis in reversed(AXES):
            rank, place[axis] = divmod(rank, self.size(axis))
        return {axis: place[axis] for axis in AXES}

    def rank_of(self, *, pp: int = 0, dp: int = 0, sp: int = 0, tp: int = 0) -> int:
        """Tell the rank at a place of the mesh; an axis left out is at 0."""
        rank = 0
        for axis, index in zip(AXES, (pp, dp, sp, tp), strict=True):
            if not 0 <= index < self.size(axis):
                raise ValueError(f"{axis}={index} is outside an axis of size {self.size(axis)}")
            rank = rank * self.size(axis) + index
        return rank

    def groups(self, axes: str | Sequence[str]) -> list[list[int]]:
        """List the groups of ranks that differ on the given axes only, each in rank order.

        Parameters
        ----------
        axes : an axis, or several: ("dp", "sp") gives the ranks that hold the same weights.
        """
        joined = {axes} if isinstance(axes, str) else set(axes)
        if not joined <= set(AXES):
            raise ValueError(f"axes {axes!r} are not all of {', '.join(AXES)}")
        fixed = [axis for axis in AXES if axis not in joined]
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.world_size):
            place = self.coordinates(rank)
            groups.setdefault(tuple(place[axis] for axis in fixed), []).append(rank)
        return list(groups.values())

    def __str__(self) -> str:
        """Draw the map of ranks: a row a pipeline stage, headed by the other axes."""
        columns = self.groups("pp")
        width = max(len(f"pp{self.pp}"), len(str(self.world_size - 1))) + 1
        sizes = " x ".join(f"{axis} {self.size(axis)}" for axis in AXES)
        rows = [f"{sizes} = {self.world_size} ranks"]
        for axis in AXES[1:]:
            places = (self.coordinates(column[0])[axis] for column in columns)
            rows.append(" " * width + "".join(f"{axis}{place}".rjust(width) for place in places))
        for stage in range(self.pp):
            cells = "".join(str(column[stage]).rjust(width) for column in columns)
            rows.append(f"pp{stage}".ljust(width) + cells)
        return "\n".join(rows)


def stage_layers(layers: int, stages: int, stage: int) -> range:
    """List the layers of a pipeline stage: even shares, the first stages take one more.

    Raises
    ------
    ValueError
        When there are fewer layers than stages, or no such stage.
    """
    if layers < stages:
        raise ValueError(f"{layers} layers cannot fill {stages} stages; a stage needs a layer")
    if not 0 <= stage < stages:
        raise ValueError(f"stage {stage} is outside {stages} stages")
    share, rest = divmod(layers, stages)
    start = stage * share + min(stage, rest)
    return range(start, start + share + (stage < rest))


@dataclass(frozen=True, slots=True)
class Mesh:
    """A rank's place in a layout, and the group it is a member of on each axis."""

    layout: Layout
    coordinates: dict[str, int]
    pp: Group
    dp: Group
    sp: Group
    tp: Group
    dp_sp: Group
    """Ranks that hold the same weights: gradients are summed over them."""


def mesh(layout: Layout) -> Mesh:
    """Make the groups of a layout, named pp0, pp1, ..., dp_sp0; every rank of the world calls it.

    Raises
    ------
    ValueError
        When the layout is not that of the world.
    """
    if layout.world_size != hcom.rank_size():
        raise ValueError(
            f"the world has {hcom.rank_size()} ranks, not those of the layout\n{layout}"
        )
    return Mesh(
        layout,
        layout.coordinates(hcom.rank()),
        pp=_own_group(layout, "pp"),
        dp=_own_group(layout, "dp"),
        sp=_own_group(layout, "sp"),
        tp=_own_group(layout, "tp"),
        dp_sp=_own_group(layout, "dp", "sp"),
    )


def _own_group(layout: Layout, *axes: str) -> Group:
    """Make all groups of some axes, as every rank must, and return this rank's."""
    made = [
        hcom.new_group(ranks, hcom.CommunicatorConfig(name=f"{'_'.join(axes)}{index}"))
        for index, ranks in enumerate(layout.groups(axes))
    ]
    return next(group for group in made if isinstance(group, hcom.Communicator))
