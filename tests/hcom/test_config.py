"""HCCL_EXEC_TIMEOUT: its range and default, and that a wrong value is told in one line."""

import math

import pytest

from hcom.config import EXEC_TIMEOUT_DEFAULT, CommunicatorConfig, exec_timeout
from hcom.errors import ConfigError


@pytest.fixture
def setting(monkeypatch):
    """Set the variable, or take it away (None), and read it back through the runtime."""

    def read(text):
        if text is None:
            monkeypatch.delenv("HCCL_EXEC_TIMEOUT", raising=False)
        else:
            monkeypatch.setenv("HCCL_EXEC_TIMEOUT", text)
        return exec_timeout()

    return read


@pytest.mark.parametrize("text", [None, "", "   "])
def test_without_a_value_the_default_of_hccl_holds(setting, text):
    assert setting(text) == EXEC_TIMEOUT_DEFAULT == 1836


@pytest.mark.parametrize("text", ["0", "0.0", "0.00", "000"])
def test_zero_is_no_limit(setting, text):
    assert setting(text) == math.inf


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1.0),
        ("1.5", 1.5),
        ("0.01", 0.01),
        ("17340", 17340.0),
        ("17341", 17341.0),
        ("2147483647", 2147483647.0),
        (" 60 ", 60.0),
        ("007", 7.0),
    ],
)
def test_seconds_to_two_decimals_are_taken_as_they_are(setting, text, seconds):
    assert setting(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "2147483648",
        "2147483647.01",
        "1" * 400,  # more than a float holds
        "1.234",
        "-1",
        "+1",
        "1e3",
        "inf",
        "nan",
        "abc",
        "1.5.5",
        "1,5",
        ".5",
        "1 2",
        "0x10",
        "1_000",
        "١٢",  # digits, but not ASCII ones
        "1.٥",
        "1.²",
    ],
)
def test_anything_else_is_refused_with_name_value_and_range_in_one_line(setting, text):
    with pytest.raises(ConfigError) as caught:
        setting(text)
    told = str(caught.value)
    assert "\n" not in told
    for part in ("EI0001", "HCCL_EXEC_TIMEOUT", repr(text), "0 (no limit)", "2147483647"):
        assert part in told


def test_a_communicators_own_limit_goes_before_the_environments():
    assert CommunicatorConfig().timeout(100.0) == 100.0
    assert CommunicatorConfig(exec_timeout=2.5).timeout(100.0) == 2.5
    assert CommunicatorConfig(exec_timeout=0).timeout(100.0) == math.inf


@pytest.mark.parametrize("value", [-1, -0.01, math.nan])
def test_a_communicators_limit_is_not_negative(value):
    with pytest.raises(ConfigError, match=r"exec_timeout must be 0 \(no limit\) or more") as caught:
        CommunicatorConfig(exec_timeout=value)
    assert "\n" not in str(caught.value)
