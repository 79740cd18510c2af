"""The text form of a schedule: `str(schedule)` prints it, `parse` reads it back.

For example::

    all_reduce ranks=2 chunks=2 name=ring
    0 | c1:0+>1 c0:1+>0
    1 | c0:0>1  c1:1>0
"""

import re

from hcom.schedule.value import Round, Schedule, ScheduleError, Transfer

_TITLE = re.compile(
    r"(?P<collective>\w+) ranks=(?P<ranks>\d+) chunks=(?P<chunks>\d+)"
    r"(?: root=(?P<root>\d+))?(?: scratch=(?P<scratch>\d+))?(?: name=(?P<name>.*))?"
)
_TRANSFER = re.compile(r"c(\d+)(?:-(\d+))?:(\d+)(\+?)>(\d+)(?::c(\d+))?")


def parse(text: str) -> Schedule:
    """Read the text form; empty lines and what follows a `#` are left out.

    Raises
    ------
    ScheduleError : a line is not of the form, or rounds are not numbered from 0; the text names
        the line. What the schedule means is not judged here (see `check`).
    """
    lines = [(n, line.split("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(n, line) for n, line in lines if line]
    if not lines:
        raise ScheduleError("the text form is empty")
    number, title = lines[0]
    found = _TITLE.fullmatch(title)
    if found is None:
        form = "`all_reduce ranks=4 chunks=4 [root=0] [scratch=0] [name=ring]`"
        raise ScheduleError(f"line {number}: expected {form}, got {title!r}")
    return Schedule(
        found["collective"],
        int(found["ranks"]),
        int(found["chunks"]),
        rounds=[_round(i, *line) for i, line in enumerate(lines[1:])],
        root=int(found["root"] or 0),
        num_scratch=int(found["scratch"] or 0),
        name=found["name"] or "",
    )


def _round(index: int, number: int, line: str) -> Round:
    head, bar, transfers = line.partition("|")
    if not bar or head.strip() != str(index):
        raise ScheduleError(f"line {number}: expected `{index} | transfers`, got {line!r}")
    return Round.of(_transfer(number, word) for word in transfers.split())


def _transfer(number: int, word: str) -> Transfer:
    found = _TRANSFER.fullmatch(word)
    if found is None:
        form = "`c3:0>1`, `c3:0+>1`, `c3-5:0>1` or `c3:0>1:c7`"
        raise ScheduleError(f"line {number}: expected a transfer like {form}, got {word!r}")
    first, last, src, plus, dst, there = found.groups()
    count = int(last or first) - int(first) + 1
    return Transfer(int(src), int(dst), int(first), int(there or first), bool(plus), count)
