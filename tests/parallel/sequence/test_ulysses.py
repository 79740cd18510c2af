"""The exchange as a pure permutation: ranks are played one after another in this process."""

import threading

import numpy as np
import pytest

from parallel.sequence.ulysses import heads_to_sequence, sequence_to_heads


class Together:
    """A group whose ranks are threads: all_to_all moves blocks between their arrays."""

    def __init__(self, rank_size):
        self.rank_size = rank_size
        self.barrier = threading.Barrier(rank_size)
        self.sent = [None] * rank_size

    def run(self, work):
        results = [None] * self.rank_size

        def play(rank):
            results[rank] = work(rank, Member(self, rank))

        threads = [threading.Thread(target=play, args=(r,)) for r in range(self.rank_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


class Member:
    def __init__(self, group, rank):
        self.group, self.rank, self.rank_size = group, rank, group.rank_size

    def all_to_all(self, x):
        self.group.sent[self.rank] = x.copy()
        self.group.barrier.wait()
        result = np.stack([block[self.rank] for block in self.group.sent])
        self.group.barrier.wait()
        return result


def numbered(batch, sequence, components, heads, head_size):
    shape = (batch, sequence, components, heads, head_size)
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


CASES = [(1, 4, 2), (2, 4, 2), (4, 4, 2), (2, 6, 3), (3, 6, 1)]


@pytest.mark.parametrize(("ranks", "heads", "head_size"), CASES)
def test_each_rank_gets_the_whole_sequence_of_its_own_heads(ranks, heads, head_size):
    sequence, share = 4 * ranks, heads // ranks
    x = numbered(2, sequence, 3, heads, head_size)

    def work(rank, group):
        return sequence_to_heads(x[:, 4 * rank : 4 * (rank + 1)], group)

    for rank, result in enumerate(Together(ranks).run(work)):
        own = x[:, :, :, share * rank : share * (rank + 1)]
        np.testing.assert_array_equal(result, own.transpose(2, 0, 3, 1, 4))


@pytest.mark.parametrize(("ranks", "heads", "head_size"), CASES)
def test_the_way_back_is_the_inverse(ranks, heads, head_size):
    x = numbered(2, 4 * ranks, 3, heads, head_size)

    def work(rank, group):
        part = x[:, 4 * rank : 4 * (rank + 1)]
        return heads_to_sequence(list(sequence_to_heads(part, group)), group)

    np.testing.assert_array_equal(np.concatenate(Together(ranks).run(work), axis=1), x)


def test_heads_that_do_not_divide_are_refused():
    group = Member(Together(2), 0)
    with pytest.raises(ValueError, match=r"heads \(3\) must be divisible by the sequence ranks"):
        sequence_to_heads(numbered(1, 2, 3, 3, 2), group)
