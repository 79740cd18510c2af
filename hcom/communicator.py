"""A communicator: a group of ranks, as one of its members sees it."""

from collections.abc import Sequence
from typing import Any

from hcom.collectives import Collectives
from hcom.config import CommunicatorConfig, exec_timeout
from hcom.device import current
from hcom.errors import HcomError
from hcom.executor.session import Session
from hcom.messages import Messages
from hcom.rooted import Rooted
from hcom.runtime import Runtime
from hcom.topology import Topology
from hcom.transport.layout import window_bytes


class NonMember:
    """A group that this process is not in: it names its ranks and refuses use."""

    def __init__(self, name: str, ranks: Sequence[int], here: int) -> None:
        self.name, self.ranks, self._here = name, tuple(ranks), here

    def __repr__(self) -> str:
        return f"<group {self.name!r}, ranks {list(self.ranks)}, without rank {self._here}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise HcomError(
            f"rank {self._here} is not in group {self.name!r} of ranks {list(self.ranks)} "
            f"and cannot use {name}"
        )


class Communicator(Collectives, Rooted, Messages):
    """A group of ranks and the operations between them.

    Parameters
    ----------
    name : the same on all members; in traces, statistics and errors.
    session : the members' shared memory.
    topology : of the members, for the device clock.
    runtime : what all communicators of the process share.
    """

    def __init__(self, name: str, session: Session, topology: Topology, runtime: Runtime) -> None:
        super().__init__(name, session, topology, runtime)
        self._subgroups = 0
        current().trace.groups[name] = session.ranks

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._name

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members as ranks of the world, in the group's order."""
        return self._session.ranks

    def __repr__(self) -> str:
        return f"<group {self._name!r}, ranks {list(self.ranks)}, here rank {self.rank}>"

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """Split the group: members of equal colour form a new group.

        Parameters
        ----------
        color : any integer that is not negative; None joins no group and gets None.
        key : orders the new group; equal keys keep the order of ranks.

        Raises
        ------
        ValueError : a negative colour.
        """
        if color is not None and color < 0:
            raise ValueError(f"color must not be negative, not {color}")
        asked = -1 if color is None else color
        rows = self._numbers([asked, key], "split")
        members = sorted((k, member) for member, (c, k) in enumerate(rows) if c == asked)
        number = self._subgroups
        if color is None:
            # Takes part in the exchange of the windows, but joins none.
            self.subgroup([], f"{self._name}/{number}")
            return None
        made = self.subgroup([member for _, member in members], f"{self._name}/{number}.{color}")
        assert isinstance(made, Communicator)
        return made

    def subgroup(
        self,
        members: Sequence[int],
        name: str = "",
        config: CommunicatorConfig | None = None,
        *,
        agreed: bool = False,
    ) -> "Communicator | NonMember":
        """Join some members in a group; every member calls this, those left out get a handle.

        Parameters
        ----------
        members : ranks of this group, in the new group's order.
        name : of the new group, made from a counter by default.
        config : what differs from the environment.
        agreed : whether all members must ask for one and the same group; else they may ask for
            several at once, as `split` does.
        """
        self._subgroups += 1
        name = name or f"{self._name}/{self._subgroups}"
        detail = f"new group of {list(members)}" if agreed else "split"
        session = self._session
        need = window_bytes(len(members), session.sizes.slot, session.sizes.stream)
        inside = self.rank in members
        offset = session.host.arena.allocate(need) if inside else -1
        offsets = [row[0] for row in self._numbers([offset], detail)]
        ranks = [self.ranks[member] for member in members]
        if not inside:
            return NonMember(name, ranks, session.host.rank)
        limit = (config or CommunicatorConfig()).timeout(exec_timeout())
        places = [offsets[member] for member in members]
        joined = Session(session.host, ranks, places, session.sizes, limit)
        servers = self._topology.server_of[list(members)]
        topology = Topology(servers, self._topology.links, self._topology.gamma)
        return Communicator(name, joined, topology, self._runtime)
