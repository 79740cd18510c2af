from itertools import product

import pytest

import hcom
from parallel.layout import AXES, Layout, mesh, stage_layers

LAYOUTS = [Layout(), Layout(pp=2, sp=2), Layout(2, 3, 2, 2), Layout(tp=4), Layout(pp=5)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_coordinates_and_rank_are_inverse(layout):
    ranks = [layout.rank_of(**layout.coordinates(rank)) for rank in range(layout.world_size)]
    assert ranks == list(range(layout.world_size))


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_ranks_count_with_tp_innermost_then_sp_dp_and_pp(layout):
    places = product(*(range(layout.size(axis)) for axis in AXES))
    for rank, place in enumerate(places):
        assert layout.coordinates(rank) == dict(zip(AXES, place, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("axes", ["pp", "dp", "sp", "tp", ("dp", "sp"), ("pp", "tp"), AXES])
def test_groups_share_all_other_coordinates_and_cover_the_world_once(layout, axes):
    groups = layout.groups(axes)
    assert sorted(rank for group in groups for rank in group) == list(range(layout.world_size))
    others = [axis for axis in AXES if axis not in ([axes] if isinstance(axes, str) else axes)]
    places = []
    for group in groups:
        assert group == sorted(group)
        place = {tuple(layout.coordinates(rank)[axis] for axis in others) for rank in group}
        assert len(place) == 1
        places.append(place.pop())
    assert len(set(places)) == len(groups)


def test_a_group_along_an_axis_is_in_the_order_of_the_axis():
    layout = Layout(pp=3, sp=2)
    assert layout.groups("pp") == [[0, 2, 4], [1, 3, 5]]


def test_the_map_shows_where_each_rank_is():
    assert str(Layout(pp=2, dp=2, sp=2)).splitlines() == [
        "pp 2 x dp 2 x sp 2 x tp 1 = 8 ranks",
        "     dp0 dp0 dp1 dp1",
        "     sp0 sp1 sp0 sp1",
        "     tp0 tp0 tp0 tp0",
        "pp0    0   1   2   3",
        "pp1    4   5   6   7",
    ]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: Layout(sp=0), "axis sp has size 0; sizes start at 1"),
        (lambda: Layout(pp=2).coordinates(2), "rank 2 is outside a world of 2 ranks"),
        (lambda: Layout(pp=2).coordinates(-1), "rank -1 is outside a world of 2 ranks"),
        (lambda: Layout(pp=2).rank_of(pp=2), "pp=2 is outside an axis of size 2"),
        (lambda: Layout().groups("ep"), "axes 'ep' are not all of pp, dp, sp, tp"),
        (lambda: Layout().size("cp"), "no axis 'cp'; the axes are pp, dp, sp, tp"),
        (lambda: stage_layers(2, 3, 0), "2 layers cannot fill 3 stages"),
        (lambda: stage_layers(4, 2, 2), "stage 2 is outside 2 stages"),
    ],
)
def test_what_is_outside_the_layout_is_refused(call, problem):
    with pytest.raises(ValueError, match=problem):
        call()


@pytest.mark.parametrize(("layers", "stages"), [(4, 1), (4, 2), (4, 4), (5, 3), (7, 4), (11, 3)])
def test_stages_hold_all_layers_in_order_and_the_first_ones_take_one_more(layers, stages):
    held = [stage_layers(layers, stages, stage) for stage in range(stages)]
    assert [layer for stage in held for layer in stage] == list(range(layers))
    sizes = list(map(len, held))
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


class Group(hcom.Communicator):
    def __init__(self, asked):
        self.asked = asked


@pytest.fixture
def world(monkeypatch):
    """Make this process rank `rank` of a world in which groups are only noted down."""

    def start(rank, size):
        asked = []

        def new_group(ranks, config):
            asked.append((config.name, list(ranks)))
            return Group(asked[-1]) if rank in ranks else object()

        monkeypatch.setattr(hcom, "rank", lambda: rank)
        monkeypatch.setattr(hcom, "rank_size", lambda: size)
        monkeypatch.setattr(hcom, "new_group", new_group)
        return asked

    return start


def test_every_rank_makes_the_same_groups_and_finds_its_own(world):
    layout = Layout(pp=2, dp=2, sp=2)
    orders = []
    for rank in range(8):
        orders.append(world(rank, 8))
        here = mesh(layout)
        assert here.coordinates == layout.coordinates(rank)
        for axes in (("pp",), ("dp",), ("sp",), ("tp",), ("dp", "sp")):
            name, ranks = getattr(here, "_".join(axes)).asked
            assert rank in ranks
            assert ranks in layout.groups(axes)
            assert name == f"{'_'.join(axes)}{layout.groups(axes).index(ranks)}"
    assert all(order == orders[0] for order in orders)


def test_a_mesh_of_another_world_is_refused_with_its_map(world):
    world(0, 4)
    with pytest.raises(ValueError, match="the world has 4 ranks, not those of the layout\npp 2 x"):
        mesh(Layout(pp=2))
