"""What is printed of failures."""

from launch.failure import describe, read_failures
from launch.rank import write_failure

TRACE = 'Traceback\n  File "a.py", line 1\n    f()\n'


def test_the_earliest_failure_is_whole_and_the_others_are_named(tmp_path):
    for rank in (2, 0, 1):
        write_failure(tmp_path, rank, f"rank {rank} failed:\n{TRACE}ValueError: {rank}")
    assert [failure.rank for failure in read_failures(tmp_path)] == [2, 0, 1]
    assert describe(read_failures(tmp_path)) == (
        f"rank 2 failed:\n{TRACE}ValueError: 2\n"
        "hcom-run: then rank 0: ValueError: 0; rank 1: ValueError: 1"
    )


def test_times_are_compared_as_numbers(tmp_path):
    (tmp_path / "failure-999-0.txt").write_text("early")
    (tmp_path / "failure-1000-1.txt").write_text("late")
    assert describe(read_failures(tmp_path)).startswith("early")


def test_an_unfinished_file_is_not_read(tmp_path):
    (tmp_path / ".failure-1-0.txt").write_text("half")
    (tmp_path / "draft-0").write_text("half")
    assert read_failures(tmp_path) == []


def test_a_later_failure_is_named_by_its_error_not_by_the_end_of_a_long_message(tmp_path):
    write_failure(tmp_path, 0, "rank 0 was killed by signal 9 (SIGKILL)")
    trace = 'Traceback\n  File "a.py", line 1\n    f()\n    ^^^\nE: wrong\n  rank 1: 5\n  rank 0: 4'
    write_failure(tmp_path, 1, f"rank 1 failed:\n{trace}\n(found by rank 2)")
    assert describe(read_failures(tmp_path)).endswith("hcom-run: then rank 1: E: wrong")
