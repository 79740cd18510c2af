"""The environment variables that the runtime reads, with HCCL's names, ranges and defaults."""

import math
import os
import re
from dataclasses import dataclass

from hcom.errors import ConfigError

# Longest wait for a notify while an operation runs, s (HCCL environment reference).
EXEC_TIMEOUT = "HCCL_EXEC_TIMEOUT"
EXEC_TIMEOUT_DEFAULT = 1836.0
EXEC_TIMEOUT_MOST = 2147483647
_SECONDS = re.compile(r"[0-9]+(\.[0-9]{0,2})?")


def exec_timeout() -> float:
    """Read HCCL_EXEC_TIMEOUT.

    Returns
    -------
    float
        Seconds; infinity for 0, which means no limit.

    Raises
    ------
    ConfigError : not a number from 0 to 2147483647 with at most two decimals.
    """
    text = os.environ.get(EXEC_TIMEOUT, "").strip()
    if not text:
        return EXEC_TIMEOUT_DEFAULT
    if not _SECONDS.fullmatch(text) or float(text) > EXEC_TIMEOUT_MOST:
        raise ConfigError(
            f"EI0001: {EXEC_TIMEOUT}={text!r} must be seconds from 0 (no limit) to "
            f"{EXEC_TIMEOUT_MOST}, with at most two decimals"
        )
    return float(text) or math.inf


@dataclass(frozen=True, kw_only=True)
class CommunicatorConfig:
    """What a communicator sets for itself; it goes before the environment (HcclCommConfig).

    Attributes
    ----------
    exec_timeout : longest wait for a notify, s; 0 is no limit; None leaves HCCL_EXEC_TIMEOUT.
    name : of the group; made from a counter when empty.
    """

    exec_timeout: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.exec_timeout is not None and not self.exec_timeout >= 0:
            raise ConfigError(f"exec_timeout must be 0 (no limit) or more, not {self.exec_timeout}")

    def timeout(self, environment: float) -> float:
        """Return the limit in force, s, given that of the environment."""
        if self.exec_timeout is None:
            return environment
        return self.exec_timeout or math.inf
