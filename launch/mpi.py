"""The MPI of this environment: the library that mpi4py loads, and how its ranks are started."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Asked in a process of its own, since only mpi4py knows which library it loads, and loading it
# here would bring its threads and signal handlers along.
_PROBE = """
import json, re
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
try:
    maps = open("/proc/self/maps").read()
except OSError:
    maps = ""
libraries = re.findall(r"/\\S*/libmpi(?:_abi)?\\.so\\S*", maps) + [MPI.__file__]
name, version = MPI.get_vendor()
print(json.dumps([name, ".".join(map(str, version)), libraries[0]]))
"""

_LAUNCHERS = {
    "Open MPI": ("mpirun.openmpi", "mpirun", "mpiexec"),
    "MPICH": ("mpiexec.hydra", "mpiexec.mpich", "mpiexec"),
}
_HYDRA_FAMILY = ("MPICH", "Intel MPI", "MVAPICH", "MVAPICH2")


class MpiNotFoundError(RuntimeError):
    """No MPI that can start ranks was found; the text says what to install."""


@dataclass(frozen=True, kw_only=True)
class Mpi:
    """One MPI installation, as found."""

    vendor: str
    """As mpi4py names it: `MPICH`, `Open MPI`, `Intel MPI`, ..."""
    version: str
    library: Path
    """The library that mpi4py has loaded."""
    launcher: Path
    """`mpiexec`, `mpirun`, or `srun` inside a Slurm allocation."""

    @property
    def slurm(self) -> bool:
        """Whether Slurm starts the ranks."""
        return self.launcher.name == "srun"

    @property
    def rank_variable(self) -> str:
        """The environment variable that tells a rank its number before MPI is initialised."""
        if self.slurm:
            return "SLURM_PROCID"
        return "OMPI_COMM_WORLD_RANK" if self.vendor == "Open MPI" else "PMI_RANK"

    def command(self, ranks: int, environment: Mapping[str, str] = os.environ) -> list[str]:
        """Give the command line that starts `ranks` ranks of what is appended to it.

        More ranks than cores is the usual case here, so nothing is bound to cores.
        """
        command = [str(self.launcher), "-n", str(ranks)]
        if self.slurm:
            command += ["--kill-on-bad-exit=1", "--cpu-bind=none", "--overcommit"]
            if "SLURM_MPI_TYPE" not in environment:
                command.append(f"--mpi={'pmix' if self.vendor == 'Open MPI' else 'pmi2'}")
        elif self.vendor == "Open MPI":
            command += ["--oversubscribe", "--bind-to", "none"]
            if os.geteuid() == 0:  # it refuses root otherwise, as in most containers
                command.append("--allow-run-as-root")
        return command


def find(environment: Mapping[str, str] = os.environ) -> Mpi:
    """Find the MPI that mpi4py will load in the ranks, and the launcher that belongs to it.

    Raises
    ------
    MpiNotFoundError : mpi4py is missing or finds no library, or no launcher stands beside it.
    """
    vendor, version, library = _loaded_library()
    if "SLURM_JOB_ID" in environment and (srun := shutil.which("srun")):
        launcher: Path | None = Path(srun)
    else:
        launcher = _launcher_of(vendor, Path(library))
    if launcher is None:
        raise MpiNotFoundError(
            f"mpi4py loads {vendor} {version} from {library}, but no launcher of it was found "
            "beside it or on PATH: install its mpiexec, or `pip install mpich` here"
        )
    return Mpi(vendor=vendor, version=version, library=Path(library), launcher=launcher)


def _loaded_library() -> tuple[str, str, str]:
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False
    )
    if probe.returncode:
        reason = (probe.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise MpiNotFoundError(
            f"mpi4py cannot load an MPI library in {sys.executable} ({reason}): install one with "
            "`pip install mpich` in this environment, or install the system's MPI"
        )
    vendor, version, library = json.loads(probe.stdout)
    return vendor, version, library


def _launcher_of(vendor: str, library: Path) -> Path | None:
    """Look in `bin` of every folder above the library, then on PATH."""
    names = _LAUNCHERS["MPICH" if vendor in _HYDRA_FAMILY else vendor]
    places = [str(folder / "bin") for folder in library.parents]
    for path in [*places, None]:
        for name in names:
            if found := shutil.which(name, path=path):
                return Path(found)
    return None
