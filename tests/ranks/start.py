"""One rank of the multi-rank tests: a log of its own, its stacks on SIGUSR1, then pytest.

Started by tests/run_ranks.py through mpirun: `start.py RANK_VARIABLE FOLDER pytest arguments`.
Rank 0 keeps the terminal; what the others print goes to FOLDER/log-R.
"""

import faulthandler
import os
import signal
import sys
from pathlib import Path

import pytest


def main():
    variable, name, *arguments = sys.argv[1:]
    rank, folder = int(os.environ[variable]), Path(name)
    (folder / f"pid-{rank}.{os.getpid()}").touch()
    faulthandler.register(signal.SIGUSR1, file=(folder / f"stacks-{rank}").open("w"))
    if rank:
        log = os.open(folder / f"log-{rank}", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
    os.environ["HCOM_TEST_DIR"] = name
    return pytest.main([f"--basetemp={folder / f'tmp-{rank}'}", *arguments])


if __name__ == "__main__":
    sys.exit(main())
