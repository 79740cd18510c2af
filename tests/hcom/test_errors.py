"""Errors of a run: HCCL's codes and result numbers, and what they are to a Python program."""

import pytest

import hcom
from hcom import errors

# HcclResult (HCCL reference, 2.1).
PARA, INTERNAL, NOT_SUPPORT, TIMEOUT, REMOTE = 1, 4, 5, 9, 21
# Codes by the stage and meaning of HCCL reference 7.1.
EXPECTED = {
    "ConfigError": ("EI0001", PARA),  # environment value invalid
    "NotifyTimeoutError": ("EI0002", TIMEOUT),  # notify wait timed out
    "NotSupportedError": ("EI0003", NOT_SUPPORT),  # check of a collective's parameters
    "MismatchError": ("EI0005", PARA),  # arguments inconsistent between ranks
    "PeerLostError": ("EI0006", REMOTE),  # remote rank gone
    "HcomError": ("EI9999", INTERNAL),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_error_has_hccls_code_and_result(name):
    kind = getattr(hcom, name)
    assert (kind.code, kind.result) == EXPECTED[name]


def test_every_error_is_exported_and_of_one_family():
    own = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert own == set(EXPECTED)
    for name in own:
        assert issubclass(getattr(hcom, name), hcom.HcomError)
        assert name in hcom.__all__
    assert issubclass(hcom.HcomError, RuntimeError)


def test_errors_are_also_what_python_calls_them():
    assert issubclass(hcom.ConfigError, ValueError)
    assert issubclass(hcom.NotifyTimeoutError, TimeoutError)
