"""The algorithms room: pure functions that return schedules, and the table that names them."""

from hcom.algorithms.table import TABLE, algorithms, build, options, split_options

__all__ = ["TABLE", "algorithms", "build", "options", "split_options"]
