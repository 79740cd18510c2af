"""The MPI that is found, and the command line that starts its ranks."""

import os
import stat
import sys
from pathlib import Path

import pytest

from launch import mpi
from launch.mpi import Mpi, MpiNotFoundError

LIBRARY = Path("/opt/x/lib/libmpi.so")


def made(vendor, launcher):
    return Mpi(vendor=vendor, version="1", library=LIBRARY, launcher=Path(launcher))


def executable(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def library(monkeypatch, tmp_path):
    """Pretend that mpi4py loads a library of this vendor from tmp_path."""

    def pretend(vendor, place="lib/libmpi.so"):
        answer = (vendor, "1.2.3", str(tmp_path / place))
        monkeypatch.setattr(mpi, "_loaded_library", lambda: answer)

    return pretend


def test_mpich_starts_ranks_with_nothing_bound_to_cores():
    assert made("MPICH", "/opt/x/bin/mpiexec").command(9, {}) == ["/opt/x/bin/mpiexec", "-n", "9"]


@pytest.mark.parametrize(("user", "as_root"), [(0, True), (1000, False)])
def test_open_mpi_may_oversubscribe_and_run_as_root(monkeypatch, user, as_root):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    command = made("Open MPI", "/opt/x/bin/mpirun").command(9, {})
    assert command[:4] == ["/opt/x/bin/mpirun", "-n", "9", "--oversubscribe"]
    assert command[4:6] == ["--bind-to", "none"]
    assert ("--allow-run-as-root" in command) == as_root


@pytest.mark.parametrize(("vendor", "kind"), [("MPICH", "pmi2"), ("Open MPI", "pmix")])
def test_slurm_starts_ranks_by_the_interface_that_the_mpi_speaks(vendor, kind):
    command = made(vendor, "/usr/bin/srun").command(4, {})
    assert command[:3] == ["/usr/bin/srun", "-n", "4"]
    assert f"--mpi={kind}" in command
    assert "--kill-on-bad-exit=1" in command


def test_the_users_choice_of_slurms_interface_stays():
    command = made("MPICH", "/usr/bin/srun").command(4, {"SLURM_MPI_TYPE": "cray_shasta"})
    assert not [argument for argument in command if argument.startswith("--mpi=")]


@pytest.mark.parametrize(
    ("vendor", "launcher", "variable"),
    [
        ("MPICH", "mpiexec", "PMI_RANK"),
        ("Intel MPI", "mpiexec", "PMI_RANK"),
        ("Open MPI", "mpirun", "OMPI_COMM_WORLD_RANK"),
        ("Open MPI", "srun", "SLURM_PROCID"),
    ],
)
def test_a_rank_knows_its_number_by_the_variable_of_what_starts_it(vendor, launcher, variable):
    assert made(vendor, launcher).rank_variable == variable


def test_the_launcher_beside_the_library_goes_before_one_on_the_path(
    library, tmp_path, monkeypatch
):
    library("MPICH", "lib/x86_64-linux-gnu/libmpi.so.12")
    beside = executable(tmp_path / "bin/mpiexec")
    monkeypatch.setenv("PATH", str(executable(tmp_path / "other/mpiexec").parent))
    assert mpi.find({}).launcher == beside


def test_the_launcher_named_after_its_mpi_goes_before_a_plain_one(library, tmp_path):
    library("Open MPI")
    executable(tmp_path / "bin/mpirun")
    named = executable(tmp_path / "bin/mpirun.openmpi")
    assert mpi.find({}).launcher == named


def test_inside_a_slurm_allocation_srun_starts_the_ranks(library, tmp_path, monkeypatch):
    library("MPICH")
    executable(tmp_path / "bin/mpiexec")
    srun = executable(tmp_path / "slurm/srun")
    monkeypatch.setenv("PATH", str(srun.parent))
    assert mpi.find({"SLURM_JOB_ID": "7"}).launcher == srun
    assert mpi.find({}).launcher == tmp_path / "bin/mpiexec"


def test_a_library_without_a_launcher_is_refused_by_name(library, monkeypatch):
    library("MPICH")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MpiNotFoundError, match=r"loads MPICH 1\.2\.3 from .* no launcher"):
        mpi.find({})


def test_without_an_mpi_the_error_says_what_to_install(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'cannot load MPI library' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(MpiNotFoundError, match=r"cannot load MPI library.*pip install mpich"):
        mpi.find({})


def test_the_mpi_of_this_environment_is_the_one_that_mpi4py_loads():
    try:
        found = mpi.find({})
    except MpiNotFoundError:
        pytest.skip("no MPI here")
    assert found.library.is_file()
    assert os.access(found.launcher, os.X_OK)
