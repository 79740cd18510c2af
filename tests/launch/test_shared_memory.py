"""What an MPI leaves behind is found, and only that."""

import mmap
import os

from launch import shared_memory
from launch.shared_memory import abandoned, mpi_files


def test_only_new_files_of_an_mpi_that_nobody_uses_are_abandoned(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", tmp_path)
    (tmp_path / "mpich_shm_old").write_bytes(b"x")
    before = mpi_files()
    for name in ("mpich_shm_left", "mpich_shm_mapped", "mpich_shm_open", "sem.of_a_user"):
        (tmp_path / name).write_bytes(b"x" * 4096)
    with (tmp_path / "mpich_shm_mapped").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    descriptor = os.open(tmp_path / "mpich_shm_open", os.O_RDONLY)
    try:
        assert abandoned(before) == {tmp_path / "mpich_shm_left"}
    finally:
        os.close(descriptor)
        mapped.close()
    kept = {tmp_path / "mpich_shm_mapped", tmp_path / "mpich_shm_left", tmp_path / "mpich_shm_open"}
    assert abandoned(before) == kept
