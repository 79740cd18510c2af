"""Single-transfer mutants: none that goes wrong in numbers is accepted by the checker."""

import random
import zlib

import pytest
from numeric_replay import ends_right

from hcom.algorithms import TABLE, build
from hcom.schedule import ROOTED, Schedule, ScheduleError, check

CELLS = sorted(TABLE)
FORMS = [("all_reduce", "mesh(one_shot=True)"), ("all_reduce", "nhr(one_shot=True)")]


def mutants(schedule):
    """Every schedule with one transfer dropped, doubled, flipped, or a chunk or rank off by one."""
    rounds = [list(r) for r in schedule.rounds]
    for i, transfers in enumerate(rounds):
        for j, t in enumerate(transfers):
            changed = [(), (t, t), (t._replace(reduce=not t.reduce),)]
            for step in (-1, 1):
                changed += [
                    (t._replace(src=t.src + step),),
                    (t._replace(dst=t.dst + step),),
                    (t._replace(src_chunk=t.src_chunk + step),),
                    (t._replace(dst_chunk=t.dst_chunk + step),),
                    (t._replace(src_chunk=t.src_chunk + step, dst_chunk=t.dst_chunk + step),),
                ]
            for new in changed:
                mutated = [*transfers[:j], *new, *transfers[j + 1 :]]
                yield Schedule(
                    schedule.collective,
                    schedule.rank_size,
                    schedule.num_chunks,
                    [*rounds[:i], mutated, *rounds[i + 1 :]],
                    schedule.root,
                    schedule.num_scratch,
                    schedule.name,
                )


def accepted(schedule):
    try:
        check(schedule)
    except ScheduleError:
        return False
    return True


def hunt(cell, p, sample=None):
    """Try the mutants (or a sample of them); most must be wrong, and none of those accepted."""
    collective, algorithm = cell
    root = p // 2 if collective in ROOTED else 0
    tried = list(mutants(build(collective, algorithm, p, root)))
    if sample and len(tried) > sample:
        seed = zlib.crc32(f"{cell} {p}".encode())
        tried = random.Random(seed).sample(tried, sample)
    wrong = [mutant for mutant in tried if not ends_right(mutant)]
    assert len(wrong) > len(tried) / 2
    for mutant in wrong:
        assert not accepted(mutant), f"accepted, but wrong:\n{mutant}"


@pytest.mark.parametrize("cell", CELLS + FORMS, ids="-".join)
def test_no_wrong_mutant_is_accepted(cell):
    for p in (3, 4, 5, 8):
        hunt(cell, p, sample=30)


@pytest.mark.nightly
@pytest.mark.parametrize("p", [3, 4, 5, 8])
@pytest.mark.parametrize("cell", CELLS + FORMS, ids="-".join)
def test_no_wrong_mutant_of_all_is_accepted(cell, p):
    hunt(cell, p)
