"""hcom-run with real ranks: what a program sees, and that a job ends as a whole.

The programs stand in for a user's; they use mpi4py alone. Each writes the shared memory that it
maps into a file, so that a test can look whether any of it is left.
"""

import os
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from launched import GONE_WITHIN, MEET, ROOT, Launched, hcom_run

PROLOGUE = f"""
import os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
mapped = {{line.split(maxsplit=5)[-1] for line in open("/proc/self/maps") if "/dev/shm/" in line}}
with open(f"mapped-{{rank}}", "w") as file:
    file.write("".join(name for name in mapped if "(deleted)" not in name))
{MEET}
"""


@pytest.fixture
def command(tmp_path):
    """Start hcom-run with these arguments."""
    jobs = []

    def start(ranks, *arguments, **variables):
        jobs.append(Launched(tmp_path, ranks, hcom_run(ranks, *arguments), **variables))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


@pytest.fixture
def launch(command, tmp_path):
    """Start a program of this source."""

    def start(ranks, source, *arguments, prologue=PROLOGUE, **variables):
        (tmp_path / "program.py").write_text(prologue + source)
        return command(ranks, "program.py", *arguments, **variables)

    return start


# -- what a program sees ------------------------------------------------------------------------


def test_every_rank_runs_the_program_with_its_arguments(launch):
    out, err, status = launch(4, "print(rank, world.size, sys.argv)", "--steps", "-n").wait()
    expected = [f"{rank} 4 ['program.py', '--steps', '-n']" for rank in range(4)]
    assert (sorted(out.splitlines()), err, status) == (expected, "", 0)


def test_more_ranks_than_cores_start_and_end(launch):
    out, err, status = launch(9, "print(world.allreduce(1))").wait()
    assert (out.split(), err, status) == (["9"] * 9, "", 0)


def test_cores_are_divided_among_ranks_unless_the_user_has_set_threads(launch):
    source = "print(os.environ['NUMBA_NUM_THREADS'], os.environ['OMP_NUM_THREADS'])"
    ranks = 2 * len(os.sched_getaffinity(0))
    out, _, _ = launch(ranks, source, prologue="import os\n", OMP_NUM_THREADS="3").wait()
    assert out.splitlines() == ["1 3"] * ranks


def test_lines_of_different_ranks_are_never_torn(launch):
    source = "for i in range(300): sys.stdout.write('%d:%d:' % (rank, i)); print('x' * 500)"
    out, _, _ = launch(3, source).wait()
    expected = {f"{rank}:{i}:" + "x" * 500 for rank in range(3) for i in range(300)}
    assert set(out.splitlines()) == expected
    assert len(out.splitlines()) == 900


def test_output_appears_while_the_program_runs(launch):
    job = launch(1, "print('first'); time.sleep(30)")
    assert job.process.stdout.readline() == "first\n"
    job.process.send_signal(signal.SIGTERM)
    job.wait()


def test_rank_0_has_a_terminal_of_the_same_size_where_hcom_run_has_one(tmp_path):
    (tmp_path / "program.py").write_text(
        "import os, sys\n"
        "if sys.stdout.isatty(): print(*os.get_terminal_size())\n"
        "else: print('no terminal')\n"
    )
    terminal, end = os.openpty()
    termios.tcsetwinsize(end, (30, 77))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = hcom_run(2, "program.py")
    subprocess.run(command, stdout=end, cwd=tmp_path, env=environment, check=True, timeout=60)
    lines = os.read(terminal, 4096).decode().split("\r\n")
    assert sorted(line.strip("\r") for line in lines) == ["", "77 30", "no terminal"]
    os.close(terminal)
    os.close(end)


def test_a_module_runs_by_its_name(command, tmp_path):
    (tmp_path / "program.py").write_text("import sys; print(sys.argv[1:], __name__)")
    out, err, status = command(2, "-m", "program", "a").wait()
    assert (out.splitlines(), err, status) == (["['a'] __main__"] * 2, "", 0)


def test_inside_a_slurm_allocation_srun_starts_the_ranks(command, tmp_path):
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    srun.write_text(
        "#!/bin/bash\n"
        "ranks=$2; shift 2\n"
        "while [[ $1 == --* ]]; do shift; done\n"
        'for ((r = 0; r < ranks; r++)); do SLURM_PROCID=$r "$@" & done\n'
        "wait\n"
    )
    srun.chmod(0o755)
    (tmp_path / "program.py").write_text("import os; print('rank', os.environ['SLURM_PROCID'])")
    path = f"{srun.parent}:{os.environ['PATH']}"
    out, err, status = command(3, "program.py", SLURM_JOB_ID="7", PATH=path).wait()
    assert (sorted(out.splitlines()), err, status) == (["rank 0", "rank 1", "rank 2"], "", 0)


def test_a_program_that_is_not_python_runs(command):
    out, err, status = command(2, "echo", "hello").wait()
    assert (out.splitlines(), err, status) == (["hello"] * 2, "", 0)


def test_a_missing_file_is_a_usage_error_before_any_rank_starts(command):
    out, err, status = command(2, "absent.py").wait()
    assert (out, status) == ("", 2)
    assert "no such file: absent.py" in err


# -- how a job ends -----------------------------------------------------------------------------


def ended(job):
    """Wait for a job that ends by itself; check that nothing is left; give errors and status."""
    job.until_ready()
    since = time.monotonic()
    _, err, status = job.wait()
    job.assert_nothing_left(since)
    return err, status


def test_an_exception_in_one_rank_ends_the_job_with_its_traceback_first_and_once(launch):
    err, status = ended(launch(3, "if rank == 2: raise RuntimeError('broken')\ntime.sleep(60)"))
    assert status == 1
    assert err.startswith("rank 2 failed:\nTraceback (most recent call last):\n")
    assert err.endswith("RuntimeError: broken\n")
    assert err.count("RuntimeError: broken") == 1
    assert "launch/rank.py" not in err


def test_ranks_that_fail_because_another_did_are_named_in_one_line(launch):
    source = """
if rank == 1: raise RuntimeError('broken')
time.sleep(0.3)
raise ValueError('a peer is lost')
"""
    err, status = ended(launch(3, source))
    assert status == 1
    assert err.count("Traceback") == 1
    assert err.startswith("rank 1 failed:")
    assert err.splitlines()[-1].startswith("hcom-run: then rank")
    assert err.count("ValueError: a peer is lost") == 2


def test_a_killed_rank_ends_the_job_and_is_named_with_its_signal(launch):
    source = "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"
    assert ended(launch(3, source)) == ("rank 1 was killed by signal 9 (SIGKILL)\n", 137)


def test_a_rank_that_exits_with_1_ends_those_that_sleep(launch):
    err, status = ended(launch(2, "if rank == 0: sys.exit(1)\ntime.sleep(50)"))
    assert (err, status) == ("rank 0 exited with status 1\n", 1)


def test_a_usage_error_is_left_to_the_program_to_explain(launch):
    source = "if rank == 0: print('steps: not a number', file=sys.stderr)\nsys.exit(2)"
    assert ended(launch(2, source)) == ("steps: not a number\n", 2)


def test_an_exit_message_of_every_rank_is_printed_once(launch):
    err, status = ended(launch(2, "sys.exit('no such data')"))
    assert status == 1
    assert err.startswith("no such data\n")


def test_a_rank_that_writes_its_own_failure_and_aborts_is_printed_first_and_once(launch):
    source = """
if rank == 1:
    path = os.environ['HCOM_RUN_DIR'] + f'/failure-{time.monotonic_ns()}-{rank}.txt'
    with open(path, 'w') as file:
        file.write('Traceback (most recent call last):\\nHcomError: wrong count\\n')
    world.Abort(1)
time.sleep(60)
"""
    err, status = ended(launch(2, source))
    assert status != 0
    assert err.startswith("Traceback (most recent call last):\nHcomError: wrong count\n")
    assert err.count("HcomError: wrong count") == 1
    assert "BAD TERMINATION" not in err


def test_what_a_failed_rank_has_started_ends_with_it(launch):
    source = """
import subprocess
subprocess.Popen(['sleep', '60'])
subprocess.Popen(['sleep', '60'], start_new_session=True)
if rank == 1: raise RuntimeError('broken')
time.sleep(60)
"""
    _, status = ended(launch(2, source))
    assert status == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_rank(launch, number):
    job = launch(3, "time.sleep(60)")
    job.until_ready()
    since = time.monotonic()
    job.process.send_signal(number)
    _, err, status = job.wait()
    job.assert_nothing_left(since)
    assert status == 128 + number
    assert err == f"hcom-run: {number.name} ended the job\n"


def test_a_rank_hears_the_signal_and_may_save_its_work(launch):
    source = """
def save(*_):
    with open('saved', 'w'): pass
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
world.Barrier()
open(f'armed-{rank}', 'w').close()
time.sleep(60)
"""
    job = launch(1, source)
    while not (job.folder / "armed-0").exists():
        time.sleep(0.02)
    job.process.send_signal(signal.SIGTERM)
    _, _, status = job.wait()
    assert (job.folder / "saved").exists()
    assert status == 128 + signal.SIGTERM


def test_ranks_that_ignore_signals_end_all_the_same(launch):
    source = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
open(f'armed-{rank}', 'w').close()
time.sleep(60)
"""
    job = launch(2, source)
    while len(list(job.folder.glob("armed-*"))) < 2:
        time.sleep(0.02)
    since = time.monotonic()
    job.process.send_signal(signal.SIGINT)
    job.wait()
    job.assert_nothing_left(since)


def test_a_signal_ends_every_rank_also_while_nobody_reads_their_output(launch):
    job = launch(2, "while True: print('x' * 1000)")
    job.until_ready()
    time.sleep(0.5)  # the pipe is full by now
    since = time.monotonic()
    job.process.send_signal(signal.SIGTERM)
    while len(job.pids()) > 1:
        assert time.monotonic() - since < GONE_WITHIN, "ranks are left"
        time.sleep(0.02)
    assert job.wait()[2] == 128 + signal.SIGTERM


def test_a_reader_that_goes_away_ends_the_job(launch):
    job = launch(2, "while True: print('x' * 1000)")
    job.until_ready()
    since = time.monotonic()
    job.process.stdout.close()
    job.process.wait(timeout=30)
    job.process.stderr.close()
    job.assert_nothing_left(since)


def killed_launcher(job):
    job.process.kill()


def killed_mpi_launcher(job):
    children = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text()
    os.kill(int(children.split()[0]), signal.SIGKILL)


def killed_launcher_and_guards(job):
    programs = [int(file.read_text()) for file in job.folder.glob("ready-*")]
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in programs]
    job.process.kill()
    for stat in stats:
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)  # the parent


@pytest.mark.parametrize("kill", [killed_launcher, killed_mpi_launcher, killed_launcher_and_guards])
def test_a_killed_launcher_takes_every_rank_with_it(launch, kill):
    job = launch(2, "time.sleep(60)")
    job.until_ready()
    since = time.monotonic()
    kill(job)
    assert job.wait()[2] != 0
    job.assert_nothing_runs(since)
    if kill is not killed_launcher_and_guards:  # then nobody is left to clean up
        job.assert_nothing_left(since)
    for file in job.folder.glob("mapped-*"):
        Path(file.read_text() or file).unlink(missing_ok=True)
