"""Pipeline schedules as values: build -> check -> price -> draw -> run."""

from parallel.pipeline.build import TABLE, build
from parallel.pipeline.plan import Action, Plan, PlanError, parse

__all__ = ["TABLE", "Action", "Plan", "PlanError", "build", "parse"]
