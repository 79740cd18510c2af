"""What a collective means: the contributions each rank holds before, and must hold after.

A contribution is a pair (rank, position) of someone's input. Positions, for p ranks:

- all_reduce, reduce, broadcast: `num_chunks` parts of the one buffer;
- all_gather, reduce_scatter, scatter, gather: `num_chunks = p * k`, block r is positions r*k up
  to r*k + k - 1;
- all_to_all: `num_chunks = 2 * p * k`; the first half is input blocks by destination, the second
  half output blocks by source.

Source: the pre- and postconditions of SCCL and MSCCL (Cai et al., PPoPP 2021, section 3).
"""

import numpy as np
import numpy.typing as npt

from hcom.schedule.value import IntArray, Schedule, ScheduleError

COLLECTIVES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "scatter",
    "gather",
    "all_to_all",
)
ROOTED = frozenset({"broadcast", "reduce", "scatter", "gather"})
REDUCING = frozenset({"all_reduce", "reduce_scatter", "reduce"})
BLOCKED = frozenset({"all_gather", "reduce_scatter", "scatter", "gather", "all_to_all"})

EVERYONE = -1  # as a contributor: all ranks, added
NOTHING = -1  # as an origin: the rank need not hold anything there


def chunks_per_block(schedule: Schedule) -> int:
    """Give k, the number of positions of one block (of the whole buffer where there are none)."""
    if schedule.collective not in BLOCKED:
        return schedule.num_chunks
    blocks = schedule.rank_size * (2 if schedule.collective == "all_to_all" else 1)
    return schedule.num_chunks // blocks


def check_header(schedule: Schedule) -> None:
    """Refuse an unknown collective, a root out of range, or a number of chunks it cannot have."""
    collective, p, chunks = schedule.collective, schedule.rank_size, schedule.num_chunks
    unit = {"all_to_all": 2 * p}.get(collective, p if collective in BLOCKED else 1)
    for wrong, what in (
        (collective not in COLLECTIVES, f"collective is one of {', '.join(COLLECTIVES)}"),
        (p < 1, "rank_size is at least 1"),
        (not 0 <= schedule.root < p, f"root is a rank, 0 to {p - 1}"),
        (schedule.root and collective not in ROOTED, f"{collective} has no root: leave it at 0"),
        (chunks < 1 or (p > 0 and chunks % unit), f"num_chunks is a multiple of {unit} here"),
        (schedule.num_scratch < 0, "num_scratch is not negative"),
    ):
        if wrong:
            raise ScheduleError(f"{schedule.title}: {what}")


def before(schedule: Schedule) -> npt.NDArray[np.bool_]:
    """Tell which positions each rank's input fills, as a mask (rank_size, num_chunks).

    Rank r's position c then holds the contribution (r, c).
    """
    p, chunks = schedule.rank_size, schedule.num_chunks
    rank, chunk = np.ogrid[:p, :chunks]
    match schedule.collective:
        case "broadcast" | "scatter":
            mask = rank == schedule.root
        case "all_gather" | "gather":
            mask = chunk // chunks_per_block(schedule) == rank
        case "all_to_all":
            mask = chunk < chunks // 2
        case _:
            mask = rank >= 0
    return np.broadcast_to(mask, (p, chunks))


def after(schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Tell what each position must hold: (origin, contributor), each (rank_size, num_chunks).

    The value must be contribution (contributor, origin), or those of EVERYONE added; where the
    origin is NOTHING, anything may be left.
    """
    p, chunks, k = schedule.rank_size, schedule.num_chunks, chunks_per_block(schedule)
    rank, chunk = np.ogrid[:p, :chunks]
    block = chunk // k
    origin: IntArray = chunk
    contributor: IntArray = np.array(EVERYONE)
    wanted: npt.NDArray[np.bool_] = np.array(True)
    match schedule.collective:
        case "broadcast":
            contributor = np.array(schedule.root)
        case "reduce":
            wanted = rank == schedule.root
        case "all_gather":
            contributor = block
        case "reduce_scatter":
            wanted = block == rank
        case "scatter":
            contributor, wanted = np.array(schedule.root), block == rank
        case "gather":
            contributor, wanted = block, rank == schedule.root
        case "all_to_all":
            origin, contributor, wanted = rank * k + chunk % k, block - p, block >= p
    origin = np.where(wanted, origin, NOTHING)
    return np.broadcast_to(origin, (p, chunks)), np.broadcast_to(contributor, (p, chunks))
