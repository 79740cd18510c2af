"""An independent replay with random numbers: what a schedule really does, right or wrong.

It shares nothing with the checker: no origins, no contributor sets, its own idea of what each
collective's inputs and outputs are. Numbers are added modulo 2^64, so no sum is right by accident.
"""

import numpy as np

GARBAGE = np.random.default_rng(99)


def ends_right(schedule, seed=0):
    """Tell whether random inputs end as the collective's result on every rank that gets one."""
    p, chunks = schedule.rank_size, schedule.num_chunks
    positions = chunks + schedule.num_scratch
    x = np.random.default_rng(seed).integers(0, 2**64, (p, positions), np.uint64)
    memory = GARBAGE.integers(0, 2**64, (p, positions), np.uint64)
    for rank, row in enumerate(inputs_of(schedule)):
        memory[rank, row] = x[rank, row]
    for transfers in schedule.rounds:
        before = memory.copy()
        for src, dst, here, there, reduce, count in transfers:
            if min(src, dst, here, there) < 0 or max(src, dst) >= p:
                return False
            if max(here, there) + count > positions:
                return False
            values = before[src, here : here + count]
            if reduce:
                memory[dst, there : there + count] += values
            else:
                memory[dst, there : there + count] = values
    return all(
        np.array_equal(memory[rank, places], values)
        for rank, (places, values) in enumerate(outputs_of(schedule, x))
    )


def inputs_of(schedule):
    """Positions that each rank's input fills."""
    p, chunks, root = schedule.rank_size, schedule.num_chunks, schedule.root
    whole, k = list(range(chunks)), chunks // p
    match schedule.collective:
        case "broadcast" | "scatter":
            return [whole if rank == root else [] for rank in range(p)]
        case "all_gather" | "gather":
            return [whole[rank * k : (rank + 1) * k] for rank in range(p)]
        case "all_to_all":
            return [whole[: chunks // 2]] * p
        case _:
            return [whole] * p


def outputs_of(schedule, x):
    """Positions of each rank's result, and the values they must hold."""
    p, chunks, root = schedule.rank_size, schedule.num_chunks, schedule.root
    whole, k = np.arange(chunks), chunks // p
    total = x.sum(axis=0)[:chunks]
    joined = np.concatenate([x[rank, rank * k : (rank + 1) * k] for rank in range(p)])
    nothing = (np.arange(0), np.empty(0, np.uint64))
    for rank in range(p):
        mine = slice(rank * k, (rank + 1) * k)
        match schedule.collective:
            case "all_reduce":
                yield whole, total
            case "reduce":
                yield (whole, total) if rank == root else nothing
            case "reduce_scatter":
                yield whole[mine], total[mine]
            case "broadcast":
                yield whole, x[root, :chunks]
            case "scatter":
                yield whole[mine], x[root, mine]
            case "all_gather":
                yield whole, joined
            case "gather":
                yield (whole, joined) if rank == root else nothing
            case "all_to_all":
                half = k // 2
                block = slice(rank * half, (rank + 1) * half)
                yield whole[chunks // 2 :], x[:, block].ravel()
