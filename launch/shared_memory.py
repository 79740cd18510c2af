"""Files that an MPI leaves in shared memory when its ranks do not end as they should.

The guards note what their ranks map, but a rank can die before its guard has looked. So an
unclean end is followed by a look at the folder itself: what the job's time has brought there
under an MPI's name, and no process uses any more, is nobody's.
"""

import contextlib
import os
from pathlib import Path

from launch.rank import SHARED_MEMORY

MPI_NAMES = ("mpich_shm_", "vader_segment.", "sm_segment.", "Intel_MPI_")


def mpi_files() -> set[Path]:
    """Give the files of MPI libraries that are there now and belong to this user."""
    found = set()
    for path in SHARED_MEMORY.glob("*"):
        with contextlib.suppress(FileNotFoundError):  # its job has ended meanwhile
            if path.name.startswith(MPI_NAMES) and path.stat().st_uid == os.getuid():
                found.add(path)
    return found


def abandoned(before: set[Path]) -> set[Path]:
    """Give the files that have come since `before` and that no process maps or holds open."""
    new = mpi_files() - before
    return new - _in_use(new) if new else set()


def _in_use(files: set[Path]) -> set[Path]:
    used: set[Path] = set()
    for process in Path("/proc").glob("[0-9]*"):
        # Open before mapped: a file that is being mapped is held open until it is.
        used |= files & _held_open(process)
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            maps = (process / "maps").read_text()
            used.update(path for path in files if f" {path}\n" in maps)
    return used


def _held_open(process: Path) -> set[Path]:
    held = set()
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                held.add(link.readlink())
    return held
