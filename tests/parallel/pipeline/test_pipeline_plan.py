import pytest
from reference_plans import INTERLEAVED, ZB_H1

from parallel.pipeline import TABLE, Action, Plan, PlanError, build, parse

TWO = """1f1b stages=2 micro_batches=2 virtual=1
0: F0 F1 B0 B1
1: F0 B0 F1 B1"""


def test_an_action_prints_as_its_letter_and_micro_batch():
    assert [str(Action("F", 0)), str(Action("B", 3)), str(Action("W", 12))] == ["F0", "B3", "W12"]


def test_an_action_of_a_later_chunk_names_it():
    assert str(Action("F", 5, 2)) == "F5.2"


def test_a_plan_prints_a_line_a_rank():
    assert str(build("1f1b", 2, 2)) == TWO


def test_the_text_form_reads_back():
    assert parse(TWO) == build("1f1b", 2, 2)


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("stages", [1, 2, 3, 8])
@pytest.mark.parametrize("micro_batches", [1, 3, 12])
def test_every_built_plan_reads_back_from_its_text(name, stages, micro_batches):
    plan = build(name, stages, micro_batches)
    assert parse(str(plan)) == plan


@pytest.mark.parametrize("plan", [ZB_H1, *INTERLEAVED], ids=lambda plan: plan.name)
def test_chunks_and_weight_halves_read_back(plan):
    assert parse(str(plan)) == plan


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is no head of a plan"),
        ("1f1b stages=two micro_batches=1 virtual=1", "is no head of a plan"),
        (TWO.replace("1:", "3:"), "is not the line of rank 1"),
        (TWO.replace("F1 B0", "F1 X0"), "'X0' in '0: F0 F1 X0 B1' is no action"),
        (TWO.replace("B1", "B1."), "'B1.' in '0: F0 F1 B0 B1.' is no action"),
    ],
)
def test_a_text_that_is_no_plan_is_refused_with_the_place(text, problem):
    with pytest.raises(PlanError) as refused:
        parse(text)
    assert problem in str(refused.value)


def test_chunks_go_round_the_ranks():
    plan = Plan("x", 4, 1, 2, ())
    assert plan.depth == 8
    assert [plan.virtual_stage(rank, 1) for rank in range(4)] == [4, 5, 6, 7]
    assert plan.holder(6) == (2, 1)
