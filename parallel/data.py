"""Real English that every Python ships, as bytes: the training text and its random sequences.

Sequences are drawn with replacement, without epochs: sequence i of a step starts at a place that
depends on (seed, step, i) alone. So the order is the same for every layout, and a run resumes from
the step number without any state.
"""

import functools
from collections.abc import Sequence
from pydoc_data import topics

import numpy as np
from numpy.typing import NDArray

TOKEN_VALUES = 256
"""Tokens are bytes."""

VALIDATION_SHARE = 10
"""One part in this many, the last, is kept for validation."""


@functools.cache
def corpus() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Give Python's help topics in key order, as (train, validation) tokens, read-only uint8."""
    text = "".join(topics.topics[key] for key in sorted(topics.topics)).encode()
    tokens = np.frombuffer(text, np.uint8)
    train_size = tokens.size - tokens.size // VALIDATION_SHARE
    return tokens[:train_size], tokens[train_size:]


class Batches:
    """Training sequences at random places of a text.

    Parameters
    ----------
    tokens : (N,) uint8, the text.
    sequence : tokens in a sequence.
    seed : of the order.

    Raises
    ------
    ValueError
        When the text is too short for one sequence and its last target.
    """

    def __init__(self, tokens: NDArray[np.uint8], sequence: int, seed: int) -> None:
        if not 0 < sequence < tokens.size:
            raise ValueError(
                f"a sequence of {sequence} tokens and its next one do not fit "
                f"a text of {tokens.size}"
            )
        self._tokens, self._sequence, self._seed = tokens, sequence, seed

    def sequences(
        self, step: int, indices: Sequence[int] | range
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the sequences with some indices of a step's global batch.

        Parameters
        ----------
        step : training step, from 0.
        indices : I indices in the step's batch over all replicas, from 0.

        Returns
        -------
        inputs, targets : (I, sequence) int64 each; a target is the token after its input.
        """
        starts = np.array([self._start(step, index) for index in indices], np.int64)
        return _windows(self._tokens, starts, self._sequence)

    def _start(self, step: int, index: int) -> int:
        """Draw a place: the key is (seed, step), the counter the sequence's index."""
        key = np.array([self._seed, step], np.uint64)
        bits = int(np.random.Philox(key=key, counter=index).random_raw())
        return bits * (self._tokens.size - self._sequence) >> 64


def consecutive(
    tokens: NDArray[np.uint8], sequence: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut a text in sequences one after another; a rest that fills none is left out.

    Returns
    -------
    inputs, targets : (I, sequence) int64 each; a target is the token after its input.
    """
    return _windows(tokens, np.arange(0, tokens.size - sequence, sequence), sequence)


def _windows(
    tokens: NDArray[np.uint8], starts: NDArray[np.int64], sequence: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places = starts[:, None] + np.arange(sequence)
    return tokens[places].astype(np.int64), tokens[places + 1].astype(np.int64)


def bigram_entropy(train: NDArray[np.uint8], validation: NDArray[np.uint8]) -> float:
    """Score an add-one bigram model: the loss to beat, in nats per byte.

    Each pair of bytes is counted in the training text, plus one; the mean of -log p(next | byte)
    is taken over the validation text's pairs.
    """
    counts = np.ones((TOKEN_VALUES, TOKEN_VALUES))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    log_share = np.log(counts / counts.sum(axis=1, keepdims=True))
    return float(-log_share[validation[:-1], validation[1:]].mean())
