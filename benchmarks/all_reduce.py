"""Time hcom's all_reduce beside the MPI library's own, on the same ranks, in turn in one run.

    hcom-run -n 4 benchmarks/all_reduce.py

The two take turns (A B A B ...) in blocks of equal length, so that whatever else the machine does
meets both; each block of one is compared with the block of the other beside it. A block's time is
that of its slowest rank.
"""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from mpi4py import MPI
from rich.console import Console
from rich.table import Table

import hcom

KIB, MIB = 1 << 10, 1 << 20
SIZES = (8, 128, *(n * KIB for n in (1, 4, 16, 64, 256)), *(n * MIB for n in (1, 4, 16, 64)))
BLOCK_SECONDS = 0.02  # long beside a barrier, short beside what disturbs a shared machine
MOST_CALLS = 2000
WORLD = MPI.COMM_WORLD

Call = Callable[[], object]


class Row(NamedTuple):
    """What was measured for one size: the blocks' seconds per call, and medians of them."""

    nbytes: int
    calls: int
    hcom: list[float]
    mpi: list[float]

    @property
    def ratios(self) -> list[float]:
        """MPI's time over hcom's, pair by pair, sorted: above 1 hcom is faster."""
        return sorted(theirs / ours for ours, theirs in zip(self.hcom, self.mpi, strict=True))

    def record(self) -> dict[str, Any]:
        """Give the row as it goes into the JSON file."""
        return {
            "bytes": self.nbytes,
            "calls_per_block": self.calls,
            "hcom_us": 1e6 * median(self.hcom),
            "mpi_us": 1e6 * median(self.mpi),
            "ratio": median(self.ratios),
            "ratio_lowest": self.ratios[0],
            "ratio_highest": self.ratios[-1],
            "hcom_blocks_us": [1e6 * seconds for seconds in self.hcom],
            "mpi_blocks_us": [1e6 * seconds for seconds in self.mpi],
        }


def measure(nbytes: int, blocks: int) -> Row:
    """Check and time both for one size; every rank calls it and gets the same row."""
    x = np.full(nbytes // 4, hcom.rank() + 1, np.float32)
    ours, theirs = np.empty_like(x), np.empty_like(x)

    def run_hcom() -> None:
        hcom.all_reduce(x, out=ours)

    def run_mpi() -> None:
        WORLD.Allreduce(x, theirs)

    expected = hcom.rank_size() * (hcom.rank_size() + 1) // 2
    for run, result in ((run_hcom, ours), (run_mpi, theirs)):
        run()
        if not (result == expected).all():
            raise SystemExit(f"{run.__name__} of {nbytes} bytes gave wrong sums")
    calls = _calls_per_block(run_hcom, run_mpi)
    times = np.array([[_block(run, calls) for run in (run_hcom, run_mpi)] for _ in range(blocks)])
    WORLD.Allreduce(MPI.IN_PLACE, times, MPI.MAX)
    return Row(nbytes, calls, *(times / calls).T.tolist())


def _calls_per_block(*runs: Call) -> int:
    """Choose how often each is called in a block; the same on every rank. It warms up, too."""
    for run in runs:
        _block(run, 3)
    slowest = WORLD.allreduce(max(_block(run, 3) / 3 for run in runs), MPI.MAX)
    return min(MOST_CALLS, max(1, round(BLOCK_SECONDS / slowest)))


def _block(run: Call, calls: int) -> float:
    """Time a number of calls after a barrier, s."""
    WORLD.Barrier()
    start = perf_counter()
    for _ in range(calls):
        run()
    return perf_counter() - start


def show(rows: list[Row], title: str) -> None:
    """Print the table."""
    table = Table(title=title, title_justify="left")
    for heading in ("bytes", "hcom us", "MPI us", "MPI / hcom", "lowest", "highest"):
        table.add_column(heading, justify="right")
    for row in rows:
        times = (f"{1e6 * median(seconds):,.1f}" for seconds in (row.hcom, row.mpi))
        ratios = (f"{ratio:.2f}" for ratio in (median(row.ratios), row.ratios[0], row.ratios[-1]))
        table.add_row(f"{row.nbytes:,}", *times, *ratios)
    Console(soft_wrap=True).print(table)


def machine() -> dict[str, Any]:
    """Say what was measured on."""
    return {
        "collective": "all_reduce",
        "dtype": "float32",
        "ranks": hcom.rank_size(),
        "cores": len(os.sched_getaffinity(0)),
        "mpi": " ".join(MPI.Get_library_version().splitlines()[0].strip("\x00").split()),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def main(
    largest: Annotated[int, typer.Option(help="Largest size, bytes.")] = SIZES[-1],
    blocks: Annotated[int, typer.Option(help="Blocks of each of the two.")] = 9,
    output: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = Path("runs/bench"),
) -> None:
    """Time all_reduce of hcom and of MPI from 8 bytes up, and write a JSON file."""
    hcom.init()
    rows = [measure(nbytes, blocks) for nbytes in SIZES if nbytes <= largest]
    if hcom.rank() == 0:
        about = machine()
        show(rows, f"all_reduce, {about['ranks']} ranks on {about['cores']} cores, {about['mpi']}")
        output.mkdir(parents=True, exist_ok=True)
        path = output / f"all_reduce.{about['ranks']}.json"
        path.write_text(json.dumps({**about, "rows": [row.record() for row in rows]}, indent=1))
        print(f"written to {path}")
    hcom.finalize()


if __name__ == "__main__":
    typer.run(main)
