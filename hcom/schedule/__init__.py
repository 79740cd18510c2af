"""The schedule room: a collective's plan as a value, its checker, price, text and drawing."""

from hcom.schedule.check import check
from hcom.schedule.combine import mirrored, on, relabelled, rooted, sliced, sparing, then, together
from hcom.schedule.draw import draw
from hcom.schedule.evaluate import Symbol, evaluate, symbols
from hcom.schedule.layout import Layout, borders
from hcom.schedule.meaning import COLLECTIVES, REDUCING, ROOTED, after, before
from hcom.schedule.moves import Moves, moves
from hcom.schedule.price import Messages, Price, messages, price
from hcom.schedule.text import parse
from hcom.schedule.value import Round, Rounds, Schedule, ScheduleError, Transfer

__all__ = [
    "COLLECTIVES",
    "REDUCING",
    "ROOTED",
    "Layout",
    "Messages",
    "Moves",
    "Price",
    "Round",
    "Rounds",
    "Schedule",
    "ScheduleError",
    "Symbol",
    "Transfer",
    "after",
    "before",
    "borders",
    "check",
    "draw",
    "evaluate",
    "messages",
    "mirrored",
    "moves",
    "on",
    "parse",
    "price",
    "relabelled",
    "rooted",
    "sliced",
    "sparing",
    "symbols",
    "then",
    "together",
]
