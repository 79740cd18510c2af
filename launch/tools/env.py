"""`hcom-tool env`: where each package comes from, which MPI runs the ranks, what is in force."""

import json
import os
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Annotated

import typer

from launch import mpi
from launch.threads import VARIABLES, cores, threads_per_rank

app = typer.Typer()

OURS = ("hcom", "ops", "parallel", "launch")
DEPENDENCIES = ("numpy", "numba", "scipy", "mpi4py", "msgpack", "ml_dtypes", "pydantic")
RANKS = (1, 2, 4, 8)


@app.command()
def env(
    as_json: Annotated[bool, typer.Option("--json", help="one record, for machines")] = False,
) -> None:
    """Print where packages were found, versions, the MPI, cores and threads, and settings."""
    record = {
        "python": f"{platform.python_version()} ({sys.executable})",
        **{name: _own_package(name) for name in OURS},
        **{name: _version(name) for name in DEPENDENCIES},
        "MPI": _mpi(),
        "cores": str(cores()),
        "threads per rank": ", ".join(f"{threads_per_rank(n)} with {n}" for n in RANKS),
        **{name: os.environ[name] for name in VARIABLES if name in os.environ},
        "HCCL_EXEC_TIMEOUT": _exec_timeout(),
        "compiled kernels": _kernels(),
    }
    if as_json:
        typer.echo(json.dumps(record))
        return
    width = max(map(len, record))
    for name, value in record.items():
        typer.echo(f"{name:{width}}  {value}")


def _own_package(name: str) -> str:
    """Give the folder that an import would take; other projects own these names too."""
    spec = util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return "not found"
    folder = Path(spec.submodule_search_locations[0])
    ours = Path(__file__).resolve().parents[2]
    foreign = (
        "" if folder.resolve().parent == ours else f" - not this project's, which is in {ours}"
    )
    return f"{folder}{foreign}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _mpi() -> str:
    try:
        found = mpi.find()
    except mpi.MpiNotFoundError as error:
        return str(error)
    return f"{found.vendor} {found.version} ({found.library}, started by {found.launcher})"


def _exec_timeout() -> str:
    """Give the effective limit; imported here, since another project's `hcom` may be in the way."""
    try:
        from hcom.config import EXEC_TIMEOUT, exec_timeout

        seconds = exec_timeout()
    except (ImportError, ValueError) as error:
        return str(error)
    source = "from the environment" if os.environ.get(EXEC_TIMEOUT) else "default"
    return "no limit" if seconds == float("inf") else f"{seconds:g} s ({source})"


def _kernels() -> str:
    try:
        from hcom.jit import cache_folder
    except ImportError as error:
        return str(error)
    return str(cache_folder())
