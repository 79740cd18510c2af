"""The page on writing an algorithm does what it says, up to the tests of a new table line."""

import shutil

import pytest
from page_examples import ROOT, run_examples

from hcom.algorithms import algorithms

PAGE = (ROOT / "docs/write_your_own_algorithm.md").read_text()
OUTSIDE, HEADING, INSIDE = PAGE.partition("\n## The table\n")


@pytest.fixture
def clone(tmp_path):
    """A copy of the parts of the project that the page changes and tests."""
    for part in ("hcom", "launch", "tests/hcom/algorithms", "tests/hcom/schedule"):
        leave_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, tmp_path / part, ignore=leave_out)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_a_users_own_function_and_file_run_without_the_table(shell, tmp_path):
    run_examples(OUTSIDE, shell, tmp_path)


def test_one_file_and_one_line_make_an_algorithm_that_the_tests_know(shell, clone):
    assert HEADING
    run_examples(INSIDE, shell, clone)
    collected = shell("python -m pytest --co -q tests/hcom -k double_ring")
    assert "test_no_wrong_mutant_is_accepted[all_reduce-double_ring]" in collected
    assert "test_every_cell_is_right_at_every_rank_count[all_reduce-double_ring]" in collected


def test_the_example_is_not_in_the_table():
    assert "double_ring" not in algorithms("all_reduce")
