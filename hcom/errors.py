"""Errors of a run: what was expected, what came, on which rank, and what to change.

Wrong arguments are plain `ValueError` and `TypeError`, raised before anything is sent. What goes
wrong between ranks is an `HcomError`; each class carries the vendor's error code and the number
of the `HcclResult` it maps to (HCCL reference: `HcclResult`, and the list of EI error codes).
"""


class HcomError(RuntimeError):
    """Something between ranks, or between the user's settings and the runtime, is wrong."""

    code = "EI9999"
    result = 4  # HCCL_E_INTERNAL


class ConfigError(HcomError, ValueError):
    """A setting (file, key or environment variable) is wrong; the text is one line."""

    code = "EI0001"
    result = 1  # HCCL_E_PARA


class NotifyTimeoutError(HcomError, TimeoutError):
    """A notify did not come within HCCL_EXEC_TIMEOUT, or every rank of the job waits."""

    code = "EI0002"
    result = 9  # HCCL_E_TIMEOUT


class MismatchError(HcomError):
    """Ranks called different operations, or one operation with different arguments."""

    code = "EI0005"
    result = 1  # HCCL_E_PARA


class PeerLostError(HcomError):
    """A rank that this one waits for has ended."""

    code = "EI0006"
    result = 21  # HCCL_E_REMOTE


class NotSupportedError(HcomError):
    """The operation is known, but not for these arguments, ranks or settings."""

    code = "EI0003"
    result = 5  # HCCL_E_NOT_SUPPORT
