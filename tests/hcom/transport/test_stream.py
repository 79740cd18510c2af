"""Copies by vector loops: every length and alignment, and nothing beside the target."""

import numpy as np
import pytest

from hcom.transport.stream import SHORT, TURN, copy, copy_streamed

LENGTHS = [0, 1, TURN, SHORT - 1, SHORT, SHORT + 1, SHORT + TURN - 1, 8192, 3 * TURN * 31 + 17]
ROOM = 128


@pytest.mark.parametrize("kernel", [copy, copy_streamed])
def test_a_copy_brings_every_byte_and_no_other(kernel):
    rng = np.random.default_rng(5)
    source = rng.integers(1, 256, max(LENGTHS) + ROOM, np.uint8)
    for nbytes in LENGTHS:
        for here, there in ((0, 0), (16, 0), (0, 16), (1, 63), (33, 7), (64, 32)):
            target = np.zeros(nbytes + 2 * ROOM, np.uint8)
            place = target.ctypes.data + ROOM // 2 + here
            kernel(place, source.ctypes.data + there, nbytes)
            start = ROOM // 2 + here
            np.testing.assert_array_equal(
                target[start : start + nbytes], source[there : there + nbytes]
            )
            assert not target[:start].any()
            assert not target[start + nbytes :].any()
