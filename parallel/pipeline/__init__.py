"""Pipeline schedules as values: build -> check -> price -> draw -> run."""

from parallel.pipeline.build import TABLE, build
from parallel.pipeline.check import check
from parallel.pipeline.draw import draw
from parallel.pipeline.memory import peak_in_flight
from parallel.pipeline.plan import Action, Plan, PlanError, parse
from parallel.pipeline.price import Price, Slot, price
from parallel.pipeline.run import StageFunctions, run
from parallel.pipeline.staircase import staircase

__all__ = [
    "TABLE",
    "Action",
    "Plan",
    "PlanError",
    "Price",
    "Slot",
    "StageFunctions",
    "build",
    "check",
    "draw",
    "parse",
    "peak_in_flight",
    "price",
    "run",
    "staircase",
]
