"""Pipeline schedules as values: build -> check -> price -> draw -> run."""

from parallel.pipeline.build import TABLE, build
from parallel.pipeline.plan import Action, Plan, PlanError, parse
from parallel.pipeline.run import StageFunctions, run

__all__ = ["TABLE", "Action", "Plan", "PlanError", "StageFunctions", "build", "parse", "run"]
