"""What training asks of a group of ranks, and the group of one rank that needs no communicator."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Group(Protocol):
    """The part of an hcom group that training uses; `hcom.new_group` returns one."""

    @property
    def rank(self) -> int:
        """Own rank in the group."""

    @property
    def rank_size(self) -> int:
        """Number of ranks."""

    @property
    def ranks(self) -> Sequence[int]:
        """Ranks of the world, in the group's order."""

    @property
    def name(self) -> str:
        """Name in traces and statistics."""

    def all_reduce(self, x: Array, op: str = "sum", *, out: Array | None = None) -> Array:
        """Reduce over the ranks; every rank gets the result."""

    def all_gather(self, x: Array) -> Array:
        """Join the ranks' arrays on axis 0."""

    def all_to_all(self, x: Array) -> Array:
        """Exchange the blocks of axis 0: block i goes to rank i."""

    def gather(self, x: Array, root: int = 0) -> Array | None:
        """Stack the ranks' arrays on a new axis 0 at the root; None elsewhere."""

    def broadcast(self, x: Array, root: int = 0) -> Array:
        """Return the root's array."""

    def send(self, x: Array, dst: int, tag: int = 0) -> None:
        """Send to a rank of the group."""

    def recv(self, out: Array, src: int, tag: int = 0) -> Array:
        """Receive from a rank of the group."""

    def barrier(self) -> None:
        """Wait for every rank."""


class OneRank:
    """A group of this rank alone: every collective is the identity and costs nothing.

    The reference of `--verify` runs on it, so that it leaves no mark in the statistics, the trace
    and the device clock of the communicators.
    """

    rank = 0
    rank_size = 1
    ranks = (0,)
    name = "one"

    def all_reduce(self, x: Array, op: str = "sum", *, out: Array | None = None) -> Array:
        """Return x, or copy it to `out`."""
        return self._result(x, out)

    def all_gather(self, x: Array) -> Array:
        """Return a copy of x."""
        return x.copy()

    def all_to_all(self, x: Array) -> Array:
        """Return a copy of x."""
        return x.copy()

    def gather(self, x: Array, root: int = 0) -> Array | None:
        """Return x with a leading axis of one."""
        return x[np.newaxis].copy()

    def broadcast(self, x: Array, root: int = 0) -> Array:
        """Return a copy of x."""
        return x.copy()

    def send(self, x: Array, dst: int, tag: int = 0) -> None:
        """Refuse: there is nobody to send to."""
        raise ValueError(f"send to rank {dst}: the group has this rank alone")

    def recv(self, out: Array, src: int, tag: int = 0) -> Array:
        """Refuse: there is nobody to receive from."""
        raise ValueError(f"recv from rank {src}: the group has this rank alone")

    def barrier(self) -> None:
        """Return at once."""

    def _result(self, x: Array, out: Array | None) -> Array:
        if out is None:
            return x.copy()
        if out is not x:
            out[...] = x
        return out
