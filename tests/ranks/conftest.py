"""Multi-rank tests: every rank runs every test, and all of them learn each test's verdict.

Run by tests/run_ranks.py. `@pytest.mark.ranks(2, 4)` says for which numbers of ranks a test is
meant; without it a test runs with any. After each phase of a test the ranks exchange verdicts, on
a communicator of their own: a test that fails on one rank fails on all, with that rank's report.
"""

import os
import time
from pathlib import Path

import hypothesis
import pytest
from mpi4py import MPI

from launch.rank import mapped_shared_memory

WORLD = MPI.COMM_WORLD
VERDICTS = WORLD.Dup()  # apart from all that tests send
VERDICT_BYTES = 8192

# Every rank must draw the same examples.
hypothesis.settings.register_profile("ranks", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("ranks")


def pytest_report_header():
    name, version = MPI.get_vendor()
    return f"rank {WORLD.rank} of {WORLD.size}, {name} {'.'.join(map(str, version))}"


def pytest_collection_modifyitems(config, items):
    kept, others = [], []
    for item in items:
        marker = item.get_closest_marker("ranks")
        (kept if marker is None or WORLD.size in marker.args else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


@pytest.fixture(scope="session")
def hcom_world():
    """The runtime, initialised once for all tests of this launch."""
    import hcom

    hcom.init()
    yield hcom
    hcom.finalize()


def tell(kind, text):
    """Leave a line for tests/run_ranks.py, if it has started this rank."""
    if folder := os.environ.get("HCOM_TEST_DIR"):
        Path(folder, f"{kind}-{WORLD.rank}").write_text(text)


def note(text):
    """Say what this rank does now: printed when nothing moves any more."""
    tell("doing", text)


# MPI's own shared memory: its files are left behind when a rank does not end as it should.
tell("mapped", "\n".join(mapped_shared_memory("self")))


def pytest_runtest_logstart(nodeid):
    note(nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    place = f"{item.nodeid} ({report.when})"
    note(f"{place} {report.outcome} here; waiting for the other ranks\n{report.longreprtext}")
    verdicts = exchange(f"{place}\n{report.outcome}\n{report.longreprtext}")
    note(f"{place} {report.outcome}")
    if len({verdict.split("\n", 1)[0] for verdict in verdicts}) > 1:
        pytest.exit(f"the ranks run different tests: {verdicts}", returncode=1)
    share_failures(item, report, [verdict.split("\n", 2)[1:] for verdict in verdicts])
    return report


def share_failures(item, report, verdicts):
    failed = {rank: text for rank, (outcome, text) in enumerate(verdicts) if outcome == "failed"}
    others = "\n".join(f"on rank {r}:\n{text}" for r, text in failed.items() if r != WORLD.rank)
    if failed and not report.failed:
        report.outcome, report.longrepr = "failed", others
    elif others:
        report.sections.append(("other ranks", others))
    last_lines = {text.strip().rsplit("\n", 1)[-1] for text in failed.values()}
    if failed and (len(failed) < WORLD.size or len(last_lines) > 1):
        item.session.shouldstop = "the ranks disagree: what they would do next is undefined"


def exchange(text):
    """Give every rank's text; waits as long as it takes, for the runner watches over that."""
    mine = bytearray(text.encode(errors="replace")[:VERDICT_BYTES].ljust(VERDICT_BYTES, b"\0"))
    everyone = bytearray(VERDICT_BYTES * WORLD.size)
    request = VERDICTS.Iallgather([mine, MPI.BYTE], [everyone, MPI.BYTE])
    pause = 1e-5
    while not request.Test():
        time.sleep(pause)  # leaves the cores to those that still compute
        pause = min(2 * pause, 0.01)
    starts = range(0, len(everyone), VERDICT_BYTES)
    return [everyone[i : i + VERDICT_BYTES].rstrip(b"\0").decode(errors="replace") for i in starts]
