"""The runtime of an emulated NPU cluster: HCCL-style collectives between the ranks of a job."""

from hcom.api import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    batch_send_recv,
    broadcast,
    gather,
    recv,
    reduce,
    reduce_scatter,
    scatter,
    send,
    send_recv,
)
from hcom.communicator import Communicator
from hcom.config import CommunicatorConfig
from hcom.errors import (
    ConfigError,
    HcomError,
    MismatchError,
    NotifyTimeoutError,
    NotSupportedError,
    PeerLostError,
)
from hcom.world import (
    finalize,
    init,
    local_rank,
    new_group,
    rank,
    rank_size,
    statistics,
)

__all__ = [
    "Communicator",
    "CommunicatorConfig",
    "ConfigError",
    "HcomError",
    "MismatchError",
    "NotSupportedError",
    "NotifyTimeoutError",
    "PeerLostError",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "batch_send_recv",
    "broadcast",
    "finalize",
    "gather",
    "init",
    "local_rank",
    "new_group",
    "rank",
    "rank_size",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "send_recv",
    "statistics",
]
