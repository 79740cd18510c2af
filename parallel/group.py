"""What training asks of a group of ranks, and the group of one rank that needs no communicator."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt

Array = npt.NDArray[Any]
Message = tuple[str, Array, int, int]


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
        """Join the ranks' arrays on axis 0 at the root; None elsewhere."""

    def broadcast(self, x: Array, root: int = 0) -> Array:
        """Return the root's array."""

    def batch_send_recv(self, operations: Sequence[Message]) -> None:
        """Complete all of ("send" or "recv", array, peer, tag) together."""

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
        """Return a copy of x."""
        return x.copy()

    def broadcast(self, x: Array, root: int = 0) -> Array:
        """Return a copy of x."""
        return x.copy()

    def batch_send_recv(self, operations: Sequence[Message]) -> None:
        """Refuse messages: there is nobody at the other end."""
        for kind, _, peer, _ in operations:
            raise ValueError(f"{kind} with rank {peer}: the group has this rank alone")

    def barrier(self) -> None:
        """Return at once."""

    def _result(self, x: Array, out: Array | None) -> Array:
        if out is None:
            return x.copy()
        if out is not x:
            out[...] = x
        return out
