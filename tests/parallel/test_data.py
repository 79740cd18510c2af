import math
from collections import Counter
from itertools import pairwise
from pydoc_data import topics

import numpy as np
import pytest

from parallel.data import Batches, bigram_entropy, consecutive, corpus


def test_the_corpus_is_the_help_topics_in_key_order():
    train, validation = corpus()
    whole = "".join(topics.topics[key] for key in sorted(topics.topics)).encode()
    assert np.concatenate([train, validation]).tobytes() == whole


def test_the_last_tenth_is_for_validation():
    train, validation = corpus()
    assert len(validation) == (len(train) + len(validation)) // 10


def test_the_corpus_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        corpus()[0][0] = 0


def test_targets_are_the_tokens_after_the_inputs():
    train, _ = corpus()
    inputs, targets = Batches(train, 64, seed=3).sequences(5, range(8))
    assert inputs.shape == targets.shape == (8, 64)
    assert inputs.dtype == targets.dtype == np.int64
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])
    for row, target in zip(inputs, targets, strict=True):
        piece = np.array([*row, target[-1]], np.uint8).tobytes()
        assert piece in train.tobytes()


def test_arrays_are_contiguous_and_writable():
    for array in Batches(corpus()[0], 16, seed=0).sequences(0, range(3)):
        assert array.flags.c_contiguous
        assert array.flags.writeable


def test_a_sequence_depends_on_its_index_alone_not_on_who_asks():
    batches = Batches(corpus()[0], 32, seed=1)
    whole, _ = batches.sequences(7, range(16))
    for layout in ([range(8), range(8, 16)], [[3], [15], [0]], [range(15, -1, -1)]):
        for indices in layout:
            part, _ = batches.sequences(7, indices)
            np.testing.assert_array_equal(part, whole[list(indices)])


def test_a_step_can_be_drawn_without_the_steps_before():
    used, fresh = (Batches(corpus()[0], 32, seed=1) for _ in range(2))
    for step in range(5):
        last, _ = used.sequences(step, range(4))
    np.testing.assert_array_equal(fresh.sequences(4, range(4))[0], last)


def test_another_seed_step_or_index_is_another_sequence():
    train, _ = corpus()
    drawn = {
        Batches(train, 32, seed).sequences(step, [index])[0].tobytes()
        for seed in range(4)
        for step in range(4)
        for index in range(4)
    }
    assert len(drawn) == 64


def test_starts_cover_the_text_evenly():
    tokens = np.zeros(10_001, np.uint8)
    batches = Batches(tokens, 1, seed=2)
    places = [batches._start(step, index) for step in range(200) for index in range(50)]
    assert 0 <= min(places) < 20
    assert 9_980 < max(places) <= 9_999
    tenths = Counter(place // 1_000 for place in places)
    spread = math.sqrt(10_000 * 0.1 * 0.9)
    assert all(abs(count - 1_000) < 5 * spread for count in tenths.values())


def test_the_shortest_text_gives_its_one_sequence():
    tokens = np.array([5, 6, 7], np.uint8)
    inputs, targets = Batches(tokens, 2, seed=0).sequences(0, range(3))
    assert inputs.tolist() == [[5, 6]] * 3
    assert targets.tolist() == [[6, 7]] * 3


def test_a_text_without_room_for_the_last_target_is_refused():
    with pytest.raises(
        ValueError, match="a sequence of 3 tokens and its next one do not fit a tex"
    ):
        Batches(np.zeros(3, np.uint8), 3, seed=0)


def test_consecutive_sequences_follow_each_other_and_leave_out_the_rest():
    inputs, targets = consecutive(np.arange(10, dtype=np.uint8), 3)
    assert inputs.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert targets.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert len(consecutive(np.arange(9, dtype=np.uint8), 3)[0]) == 2


def test_bigram_entropy_of_a_text_by_hand():
    # after 1 comes 2 twice, after 2 comes 1 once; 256 added each
    train, validation = np.array([1, 2, 1, 2], np.uint8), np.array([1, 2, 3, 4], np.uint8)
    expected = -(math.log(3 / 258) + math.log(1 / 257) + math.log(1 / 256)) / 3
    assert bigram_entropy(train, validation) == pytest.approx(expected, rel=1e-12)


def test_bigram_entropy_of_an_empty_model_is_that_of_a_uniform_byte():
    one = np.array([7], np.uint8)
    assert bigram_entropy(one, corpus()[1]) == pytest.approx(math.log(256))


def test_bigram_entropy_of_the_corpus_equals_plain_counting():
    train, validation = (part.tolist() for part in corpus())
    pairs, firsts = Counter(pairwise(train)), Counter(train[:-1])
    losses = [math.log((firsts[a] + 256) / (pairs[a, b] + 1)) for a, b in pairwise(validation)]
    assert bigram_entropy(*corpus()) == pytest.approx(math.fsum(losses) / len(losses), rel=1e-12)
