"""How a training program ends: bad input is one line, printed once, and exit status 2.

A file can be missing on one host alone, so ranks agree on whether to go on before any computes.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

import hcom
from hcom.errors import ConfigError

T = TypeVar("T")

BAD_INPUT = 2  # exit status


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
    if first == size:
        return result  # type: ignore[return-value]  # set: nobody has refused
    if first == hcom.rank():
        sys.stderr.write(f"error: {refusal}\n")
        sys.stderr.flush()
    hcom.barrier()  # the line is out before any rank ends
    raise SystemExit(BAD_INPUT)


class OptionParser(argparse.ArgumentParser):
    """An argument parser for a program that many ranks run: it speaks once, and in one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line as any other input is refused."""
        raise ConfigError(f"{message} (--help lists the options)")

    def print_help(self, file: Any = None) -> None:
        """Print the help on rank 0 only."""
        if hcom.rank() == 0:
            super().print_help(file)
