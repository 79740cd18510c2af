"""`metrics.jsonl`: a JSON record a line, on disk as soon as it is known; the summary comes last."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

Record = dict[str, Any]

NAME = "metrics.jsonl"


class Metrics:
    """The records of a run so far, and the file they go to.

    Parameters
    ----------
    path : the file; None on ranks that only keep count.
    records : of the steps before, from a checkpoint; the file starts with them.
    """

    def __init__(self, path: Path | None, records: list[Record]) -> None:
        self.path, self.records = path, list(records)
        if path is not None:
            path.write_text("".join(map(_line, self.records)))

    def write(self, record: Record) -> None:
        """Add a record."""
        self.records.append(record)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(_line(record))

    def mean(self, key: str, last: int | None = None) -> float:
        """Average a key over the records of all steps, or of the `last` ones."""
        values = [float(record[key]) for record in self.records]
        return fmean(values[-last:] if last else values)

    def speed(self) -> float:
        """Tokens a second over all steps but the first one, which also loads the kernels."""
        records = self.records[1:] or self.records
        tokens = sum(record["tokens_per_s"] * record["wall_s"] for record in records)
        return float(tokens / sum(record["wall_s"] for record in records))


def read_records(path: Path, last_step: int) -> list[Record]:
    """Read the records of the steps up to `last_step`; none where there is no file.

    A run that was killed may have left half a line at the end, which is passed over.
    """
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    records = [json.loads(line) for line in lines if line.endswith("}\n")]
    return [r for r in records if r["event"] == "step" and r["step"] <= last_step]


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
