"""Groups: who is in them, what they refuse, and that they do not disturb each other."""

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("hcom_world")


def test_a_groups_ranks_follow_the_order_given(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    backwards = list(range(size))[::-1]
    group = hcom.new_group(backwards)
    assert group.ranks == tuple(backwards)
    assert group.rank == size - 1 - hcom.rank()
    assert group.all_gather(np.array([hcom.rank()])).tolist() == backwards


@pytest.mark.ranks(2, 4)
def test_a_non_members_handle_names_the_ranks_and_refuses_use(hcom_world):
    hcom, rank = hcom_world, hcom_world.rank()
    group = hcom.new_group([1])
    assert group.ranks == (1,)
    if rank == 1:
        assert group.all_reduce(np.array([5])).item() == 5
    else:
        with pytest.raises(hcom.HcomError, match=rf"rank {rank} is not in group .*\[1\]"):
            group.all_reduce(np.array([5]))
    hcom.barrier()


@pytest.mark.ranks(4)
def test_overlapping_groups_work_side_by_side(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    rows = [hcom.new_group([0, 1]), hcom.new_group([2, 3])]
    columns = [hcom.new_group([0, 2]), hcom.new_group([1, 3])]
    row, column = rows[rank // 2], columns[rank % 2]
    for number in range(50):
        x = np.full(1 + 500 * (number % 3), rank + number)
        along_row, along_column = row.all_reduce(x), column.all_reduce(x)
        assert (along_row == 2 * number + 4 * (rank // 2) + 1).all()
        assert (along_column == 2 * number + 2 * (rank % 2) + 2).all()
        assert (hcom.all_reduce(x) == size * number + 6).all()


def test_split_orders_by_key_and_leaves_out_who_has_no_color(hcom_world):
    hcom, rank, size = hcom_world, hcom_world.rank(), hcom_world.rank_size()
    world = hcom.new_group(range(size))
    parity = world.split(rank % 2, key=-rank)
    same = [r for r in range(size) if r % 2 == rank % 2]
    assert parity.ranks == tuple(same[::-1])
    assert parity.all_reduce(np.array([rank])).item() == sum(same)
    first = world.split(0 if rank == 0 else None)
    assert (first is None) == (rank != 0)
    with pytest.raises(ValueError, match="color"):
        world.split(-1)


def test_a_wrong_list_of_ranks_is_refused_by_name(hcom_world):
    hcom, size = hcom_world, hcom_world.rank_size()
    for ranks, error in (([0, 0], "different"), ([], "different"), ([size], f"0 to {size - 1}")):
        with pytest.raises(ValueError, match=error):
            hcom.new_group(ranks)


def test_a_second_init_is_refused_and_the_first_still_works(hcom_world):
    hcom = hcom_world
    with pytest.raises(hcom.HcomError, match="already initialised"):
        hcom.init()
    assert hcom.all_reduce(np.array([1])).item() == hcom.rank_size()
