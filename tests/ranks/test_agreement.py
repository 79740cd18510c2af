"""Ranks that do not agree learn it in seconds, each with what all of them called."""

import numpy as np
import pytest

pytestmark = [pytest.mark.usefixtures("hcom_world"), pytest.mark.ranks(2, 4)]


@pytest.fixture
def group(hcom_world):
    """A group of all ranks that a test may break."""
    return hcom_world.new_group(range(hcom_world.rank_size()))


def odd(group):
    """Whether this is the rank that calls something else."""
    return group.rank == group.rank_size - 1


CALLS = {
    "count": (
        lambda g: g.all_reduce(np.ones(8 if odd(g) else 9, np.float32)),
        ["bytes=32", "bytes=36"],
    ),
    "large count": (
        lambda g: g.all_reduce(np.ones(400_000 if odd(g) else 400_001, np.float32)),
        ["bytes=1600000", "bytes=1600004"],
    ),
    "nothing": (lambda g: g.all_reduce(np.ones(0 if odd(g) else 9)), ["bytes=0", "bytes=72"]),
    "type": (
        lambda g: g.all_reduce(np.ones(9, np.int32 if odd(g) else np.float32)),
        ["type=int32", "type=fp32"],
    ),
    "op": (lambda g: g.all_reduce(np.ones(9), "max" if odd(g) else "sum"), ["op=max", "op=sum"]),
    "root": (lambda g: g.broadcast(np.ones(9), 1 if odd(g) else 0), ["root=1", "root=0"]),
    "collective": (
        lambda g: g.all_gather(np.ones(9)) if odd(g) else g.all_reduce(np.ones(9)),
        [r"all_gather\(", r"all_reduce\("],
    ),
    "algorithm": (
        lambda g: g.all_reduce(np.ones(9), algorithm="ring" if odd(g) else "mesh"),
        ["algorithm=ring", "algorithm=mesh"],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mismatch_raises_on_every_rank_with_both_calls(hcom_world, group, name):
    call, parts = CALLS[name]
    with pytest.raises(hcom_world.MismatchError) as caught:
        call(group)
    for part in parts:
        caught.match(part)
    caught.match(f"rank {group.rank_size - 1}: ")
    caught.match("EI0005")
    with pytest.raises(hcom_world.HcomError, match=r"unusable.*make a new one"):
        group.barrier()
    assert hcom_world.all_reduce(np.ones(1)).item() == hcom_world.rank_size()


def test_groups_of_different_ranks_are_refused_together(hcom_world, group):
    ranks = list(range(group.rank_size))
    asked = ranks[::-1] if odd(group) else ranks
    with pytest.raises(hcom_world.MismatchError, match="new group of"):
        group.subgroup(asked, agreed=True)


def test_a_missing_rank_is_named_when_the_limit_is_over(hcom_world):
    rank, size = hcom_world.rank(), hcom_world.rank_size()
    config = hcom_world.CommunicatorConfig(exec_timeout=0.3)
    group = hcom_world.new_group(range(size), config)
    if rank == size - 1:
        # Busy elsewhere: it waits for nobody, so this is no standstill.
        import time

        time.sleep(1.0)
    else:
        with pytest.raises(hcom_world.NotifyTimeoutError) as caught:
            group.barrier()
        caught.match(rf"nothing from rank\(s\) {size - 1} within HCCL_EXEC_TIMEOUT \(0.3 s\)")
        caught.match(f"rank {size - 1} computes")
    hcom_world.barrier()


def test_ranks_that_wait_for_each_other_are_told_so_whatever_the_limit(hcom_world):
    size = hcom_world.rank_size()
    config = hcom_world.CommunicatorConfig(exec_timeout=0)
    group = hcom_world.new_group(range(size), config)
    with pytest.raises(hcom_world.NotifyTimeoutError) as caught:
        group.send(np.zeros(10), (group.rank + 1) % size)
    caught.match("every rank of the job waits")
    for rank in range(size):
        caught.match(rf"rank {rank} waits in send to rank {(rank + 1) % size} \(tag 0")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda g: g.all_reduce([1.0, 2.0]), TypeError, "x must be a numpy array, not list"),
        (lambda g: g.all_reduce(np.array(["a"])), TypeError, "do not travel"),
        (lambda g: g.all_reduce(np.ones(2), "median"), ValueError, "op must be one of"),
        (lambda g: g.all_reduce(np.ones(2, int), "avg"), ValueError, "avg.*int64"),
        (lambda g: g.all_reduce(np.ones(2), out=np.ones(3)), ValueError, r"shape \(2,\), not"),
        (lambda g: g.all_reduce(np.ones(2), out=np.ones(2, int)), TypeError, "type float64"),
        (lambda g: g.broadcast(np.ones(2), 9), ValueError, "root must be a rank .* not 9"),
        (lambda g: g.broadcast(np.ones(2), 1.0), TypeError, "root must be an integer"),
        (lambda g: g.reduce_scatter(np.ones(4 * g.rank_size + 1)), ValueError, "equal blocks"),
        (lambda g: g.reduce_scatter(np.array(1.0)), ValueError, "0-d"),
        (lambda g: g.all_gather(np.array(1.0)), ValueError, "0-d"),
        (lambda g: g.all_reduce(np.ones(4), algorithm="rings"), ValueError, "there are: .*ring"),
    ],
)
def test_a_wrong_argument_raises_here_and_leaves_the_group_usable(group, call, error, text):
    with pytest.raises(error, match=text):
        call(group)
    assert group.all_reduce(np.ones(1)).item() == group.rank_size


def test_an_output_that_overlaps_its_input_is_refused(group):
    memory = np.arange(10.0)
    with pytest.raises(ValueError, match="overlaps"):
        group.all_reduce(memory[:5], out=memory[2:7])
    square = np.ones((group.rank_size, 2))
    with pytest.raises(ValueError, match="in place"):
        group.all_to_all(square, out=square)
