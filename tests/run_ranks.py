"""Run the multi-rank tests: one `mpirun -n N` of pytest for each N, watched from outside.

    python tests/run_ranks.py [--sizes 1,2,4] [--hang 60] [--limit 480] [pytest arguments]

A launch in which nothing moves for `--hang` seconds, or that takes longer than `--limit`, fails
with what each rank was doing: its test, its verdict if it has one, and its stacks; then all its
processes end, whatever session or process group the MPI has put them in.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from launch import mpi  # noqa: E402 - found beside this folder, installed or not
from launch.processes import adopt_orphans, end_descendants  # noqa: E402
from launch.threads import thread_variables  # noqa: E402

WAIT = "20"  # s that a wait inside the runtime may take: a lost rank shows before `--hang`
PYTEST = ["-q", "--timeout=0", "-p", "no:cacheprovider", "-o", "console_output_style=count"]


def environment(ranks):
    defaults = {"HCCL_EXEC_TIMEOUT": WAIT, "PYTHONHASHSEED": "0"}  # one order of tests on all ranks
    return defaults | os.environ | thread_variables(ranks, os.environ)


def run(found, ranks, arguments, limit, hang):
    """Run one launch; give its exit status, after printing what explains a failure."""
    print(f"-- {ranks} rank{'s' * (ranks > 1)} ({found.vendor} {found.version})", flush=True)
    with tempfile.TemporaryDirectory(prefix="hcom-test-") as name:
        folder = Path(name)
        start = [sys.executable, str(ROOT / "tests/ranks/start.py"), found.rank_variable, name]
        process = subprocess.Popen(
            [*found.command(ranks), *start, *arguments],
            cwd=ROOT,
            env=environment(ranks),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = watch(process, folder, limit, hang)
        finally:
            end_descendants(patience=0)
            for record in folder.glob("mapped-*"):
                for file in record.read_text().splitlines():
                    Path(file).unlink(missing_ok=True)
        if status:
            show_logs(folder)
    return status


def watch(process, folder, limit, hang):
    """Wait for the launch to end; if it does not, say what each rank was doing."""
    began = time.time()
    while (status := ended(process)) is None:
        moved = [path.stat().st_mtime for path in folder.glob("doing-*")]
        idle, spent = time.time() - max([began, *moved]), time.time() - began
        if idle > hang or spent > limit:
            why = f"{idle:.0f} s without progress" if idle > hang else f"{spent:.0f} s in all"
            print(f"-- no end in sight: {why}; the ranks were at:")
            show_stacks(folder)
            return 1
    return status


def ended(process):
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=0.2)


def pids(folder):
    return [int(path.suffix[1:]) for path in folder.glob("pid-*")]


def show_stacks(folder):
    for pid in pids(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    time.sleep(1.0)
    for kind in ("doing", "stacks"):
        for path in sorted(folder.glob(f"{kind}-*")):
            print(f"-- rank {path.name.partition('-')[2]} ({kind})\n{path.read_text()}", flush=True)


def show_logs(folder):
    """Show what ranks other than 0 printed: their failures are on rank 0's page already."""
    for path in sorted(folder.glob("log-*")):
        tail = path.read_text(errors="replace").splitlines()[-40:]
        print(
            f"-- end of the log of rank {path.name.partition('-')[2]}", *tail, sep="\n", flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1,2,4", help="numbers of ranks, comma separated")
    parser.add_argument("--hang", type=float, default=60, help="s without progress")
    parser.add_argument("--limit", type=float, default=480, help="s for one launch")
    options, arguments = parser.parse_known_args()
    arguments = [*PYTEST, f"--color={'yes' if sys.stdout.isatty() else 'no'}", *arguments]
    if not any(Path(argument.split("::")[0]).exists() for argument in arguments):
        arguments.append("tests/ranks")
    adopt_orphans()
    found = mpi.find()
    sizes = [int(size) for size in options.sizes.split(",")]
    statuses = [run(found, n, arguments, options.limit, options.hang) for n in sizes]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
