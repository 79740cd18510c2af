"""What all communicators of a process share."""

from dataclasses import dataclass

from hcom.executor.session import Sizes
from hcom.statistics import Statistics
from hcom.transport.host import Host
from hcom.work import Engine


@dataclass(frozen=True)
class Runtime:
    """The process's place among its peers, its communication thread and its counters."""

    host: Host
    engine: Engine
    sizes: Sizes
    statistics: Statistics
