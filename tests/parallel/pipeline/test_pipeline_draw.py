from itertools import pairwise
from xml.etree import ElementTree

import pytest
from reference_plans import INTERLEAVED, ZB_H1

from parallel.pipeline import build, draw, parse, price, staircase

SVG = "{http://www.w3.org/2000/svg}"


def test_the_staircase_of_two_stages():
    assert staircase(build("1f1b", 2, 2)) == (
        "1f1b: 2 stages, 2 micro-batches, makespan 9, bubble 33.3%\n"
        "0  F0 F1 ......B0--- ...B1---\n"
        "1  ...F0 B0--- F1 B1--- ......"
    )


def test_every_label_stands_where_its_action_starts():
    plan = build("1f1b", 4, 8)
    rows = staircase(plan).splitlines()[1:]
    for rank, row in enumerate(rows):
        for action, start, _ in price(plan).slots[rank]:
            assert row[3 + 3 * round(start) :].startswith(str(action))


def test_uneven_times_still_show_every_action():
    plan = build("gpipe", 3, 4)
    rows = staircase(plan, forward=[1, 1.3, 0.8], backward=[2.1, 3, 1.7], transfer=0.15)
    for row in rows.splitlines()[1:]:
        assert [word.strip(".-") for word in row.split()[1:] if word.strip(".-")] == [
            str(action) for action in plan.actions[0]
        ]


def boxes(plan):
    root = ElementTree.fromstring(draw(plan))
    return [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]


@pytest.mark.parametrize(
    "plan", [build("1f1b", 4, 8), build("gpipe", 1, 1), ZB_H1, INTERLEAVED[1]], ids=str
)
def test_the_picture_has_a_box_for_every_action_and_none_overlap(plan):
    rows = {}
    for rect in boxes(plan):
        left = float(rect.get("x"))
        rows.setdefault(rect.get("y"), []).append((left, left + float(rect.get("width"))))
    assert [len(row) for row in rows.values()] == [len(actions) for actions in plan.actions]
    for row in rows.values():
        assert all(end <= start + 0.02 for (_, end), (start, _) in pairwise(row))


def test_the_picture_says_what_it_shows():
    plan = build("1f1b", 4, 8)
    root = ElementTree.fromstring(draw(plan))
    assert root.find(f"{SVG}title").text == str(price(plan))


def test_a_box_tells_its_action_and_times():
    titles = [rect.find(f"{SVG}title").text for rect in boxes(build("1f1b", 2, 2))]
    assert titles[:3] == ["F0: 0 to 1", "F1: 1 to 2", "B0: 4 to 6"]


def test_a_name_with_markup_stays_text():
    plan = parse(str(build("1f1b", 2, 2)).replace("1f1b", "<a&b>"))
    assert ElementTree.fromstring(draw(plan)).find(f"{SVG}title").text.startswith("<a&b>: 2 stages")
