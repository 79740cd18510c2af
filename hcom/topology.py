"""A topology: which class of link joins two ranks, and what moving and reducing a byte costs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hcom.device import LinkClass, Profile

IntArray = npt.NDArray[np.int64]
WITHIN, BETWEEN = 0, 1


@dataclass(frozen=True, eq=False)
class Topology:
    """Ranks in servers: one link class within a server, one between servers.

    Attributes
    ----------
    server_of : int64 (rank_size,), the server that each rank is in.
    links : the link classes (within a server, between servers).
    gamma : cost of reducing a byte at the receiver, s.
    """

    server_of: IntArray
    links: tuple[LinkClass, LinkClass]
    gamma: float = 0.0

    @property
    def rank_size(self) -> int:
        """Number of ranks."""
        return len(self.server_of)

    def level_of(self, src: IntArray, dst: IntArray) -> IntArray:
        """Tell which of `links` joins each pair of ranks: WITHIN or BETWEEN."""
        return np.where(self.server_of[src] == self.server_of[dst], WITHIN, BETWEEN)

    def link_of(self, src: int, dst: int) -> LinkClass:
        """Give the link class that joins two ranks."""
        return self.links[int(self.server_of[src] != self.server_of[dst])]


def uniform(rank_size: int, alpha: float, beta: float, gamma: float = 0.0) -> Topology:
    """Join every two ranks by a link of their own.

    Parameters
    ----------
    alpha : fixed cost of a message, s.
    beta, gamma : cost of moving and of reducing a byte, s.
    """
    bandwidth = 1.0 / beta if beta else float("inf")
    link = LinkClass("link", "pair", alpha, bandwidth)
    return Topology(np.zeros(rank_size, np.int64), (link, link), gamma)


def from_profile(profile: Profile, servers: Sequence[int]) -> Topology:
    """Join ranks as a device profile says.

    Parameters
    ----------
    servers : ranks of each server, in rank order; `[8, 8]` is two servers of eight.

    Raises
    ------
    ValueError : a server without ranks, or with more than the profile's server holds.
    """
    for size in servers:
        if not 1 <= size <= profile.npus_per_server:
            most = profile.npus_per_server
            raise ValueError(f"a {profile.name} server has 1 to {most} NPUs, not {size}")
    server_of = np.repeat(np.arange(len(servers)), servers)
    return Topology(server_of, (profile.within_server, profile.between_servers), profile.gamma)
