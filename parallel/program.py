"""How a training program ends: bad input and a failed proof are one line, printed once.

A file can be missing on one host alone, so ranks agree on whether to go on before any computes.
Every other exception is a fault: its traceback is shown, and the job ends.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np

import hcom
from hcom.errors import ConfigError
from parallel.verify import VerifyError

T = TypeVar("T")

FINDING, BAD_INPUT = 1, 2  # exit statuses


def together(prepare: Callable[[], T]) -> T:
    """Run `prepare` on every rank; where any rank refuses its input, all of them end.

    Parameters
    ----------
    prepare : raises ConfigError for bad input, and communicates nothing.

    Raises
    ------
    SystemExit : on every rank, with status 2, after the first refusing rank has said why.
    """
    size = hcom.rank_size()
    result, refusal = None, None
    try:
        result = prepare()
    except ConfigError as error:
        refusal = error
    own = hcom.rank() if refusal is not None else size
    first = int(hcom.all_reduce(np.array([own], np.int64), "min")[0])
    if first < size:
        _end(f"error: {refusal}", first, BAD_INPUT)
    return result  # type: ignore[return-value]  # it is there: nobody has refused


@contextmanager
def proof() -> Iterator[None]:
    """End with one line and status 1 when the run inside is not that of one NPU."""
    try:
        yield
    except VerifyError as error:  # raised by every rank
        _end(f"error: {error}", 0, FINDING)


def _end(text: str, speaker: int, status: int) -> NoReturn:
    """Let one rank speak, then end all."""
    if hcom.rank() == speaker:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    hcom.barrier()  # the line is out before any rank ends
    raise SystemExit(status)


class OptionParser(argparse.ArgumentParser):
    """An argument parser for a program that many ranks run: it speaks once, and in one line."""

    def __init__(self, description: str | None = None) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(description=description, formatter_class=formatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line as any other input is refused."""
        raise ConfigError(f"{message} (--help lists the options)")

    def print_help(self, file: Any = None) -> None:
        """Print the help on rank 0 only."""
        if hcom.rank() == 0:
            super().print_help(file)
