"""The drawing: an arrow a message, named by its chunks, thick where it decides the time."""

from xml.etree import ElementTree

import pytest

from hcom.algorithms import build
from hcom.schedule import Schedule, Transfer, draw, price
from hcom.topology import uniform

SVG = "{http://www.w3.org/2000/svg}"


def arrows(picture, kind):
    """Paths of a class that lie in a message's group."""
    groups = ElementTree.fromstring(picture).iter(f"{SVG}g")
    return [p for g in groups for p in g.iter(f"{SVG}path") if kind in p.get("class").split()]


def labels(picture):
    return [t.text for t in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("algorithm", ["ring", "mesh", "rhd", "nhr"])
def test_each_message_is_one_arrow_of_its_kind(algorithm):
    schedule = build("all_reduce", algorithm, 4)
    pairs = [{(t.src, t.dst, t.reduce) for t in r} for r in schedule.rounds]
    picture = draw(schedule)
    assert len(arrows(picture, "add")) == sum(reduce for r in pairs for *_, reduce in r)
    assert len(arrows(picture, "copy")) == sum(not reduce for r in pairs for *_, reduce in r)


def test_a_local_move_is_a_dot_on_its_rank():
    picture = draw(build("all_to_all", "mesh", 3))
    dots = list(ElementTree.fromstring(picture).iter(f"{SVG}circle"))
    assert len(dots) == 3
    assert len({dot.get("cx") for dot in dots}) == 3


def test_arrows_name_their_chunks_as_runs():
    moved = [Transfer(0, 1, 0, 0, count=3), Transfer(0, 1, 5, 5), Transfer(1, 0, 7, 7)]
    texts = labels(draw(Schedule("all_reduce", 2, 8, [moved])))
    assert "0-2,5" in texts
    assert "7" in texts
    scattered = [Transfer(0, 1, c, c) for c in (0, 2, 4, 6)]
    assert "x4" in labels(draw(Schedule("all_reduce", 2, 8, [scattered])))


def test_the_messages_that_decide_the_time_are_thick():
    schedule = build("all_reduce", "ring", 4)
    path = price(schedule, uniform(4, 1, 1), 256).critical_path
    assert len(path) == 6
    assert len(arrows(draw(schedule, path), "decides")) == 6
    assert arrows(draw(schedule), "decides") == []


def test_a_title_with_markup_in_it_stays_text():
    picture = draw(Schedule("all_reduce", 2, 1, [], name="<b> & co"))
    assert "all_reduce ranks=2 chunks=1 name=<b> & co" in labels(picture)
