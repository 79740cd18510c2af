"""Why a job failed: the ranks' own words, the first one whole and the others in a line."""

from pathlib import Path
from typing import NamedTuple


class Failure(NamedTuple):
    """What one rank has written about its end."""

    time: int
    """Nanoseconds on the clock that all ranks of a host share."""
    rank: int
    text: str
    """`rank 2 failed:` and a traceback; or `rank 2 was killed by signal 9 (SIGKILL)`; or a
    message."""


def read_failures(folder: Path) -> list[Failure]:
    """Read `failure-NANOSECONDS-RANK.txt` files; the earliest failure comes first."""
    failures = []
    for path in folder.glob("failure-*-*.txt"):
        _, time, rank = path.stem.split("-")
        failures.append(Failure(int(time), int(rank), path.read_text(errors="replace")))
    return sorted(failures)


def describe(failures: list[Failure]) -> str:
    """Give the first failure whole and once, and a line that names the ranks that followed it."""
    first, *others = failures
    text = first.text.rstrip("\n")
    if later := [f"rank {other.rank}: {_gist(other)}" for other in others]:
        text += f"\nhcom-run: then {'; '.join(later)}"
    return text


def _gist(failure: Failure) -> str:
    """Give the line that names the error: the first one below the last frame of a traceback."""
    lines = failure.text.strip().splitlines()
    frames = [at for at, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] + 1 :] if frames else lines
    first = next((line for line in below if not line.startswith(" ")), lines[-1])
    return first.removeprefix(f"rank {failure.rank} ")
