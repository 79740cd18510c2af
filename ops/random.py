"""Random numbers by name and index: element i depends on (seed, name, start + i) alone.

So weights, data order and dropout are the same however they are cut among ranks: a rank draws
only the elements it holds. Numpy's Philox is the counter generator; its key comes from the seed
and the name, its counter from the index.

These run on the host, before a step, and so state no cost to the device.

References
----------
J. K. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from ops.seam import Array

_PER_COUNT = 8  # 32-bit words that one counter value gives


def uniform(seed: int, name: str, start: int, count: int) -> Array:
    """Draw from [0, 1) in steps of 2^-24.

    Parameters
    ----------
    seed : of the run.
    name : of what is drawn, e.g. a parameter's.
    start : index of the first element, at least 0.
    count : number of elements, at least 0.

    Returns
    -------
    (count,) float32.

    Raises
    ------
    ValueError : start or count is negative.
    """
    _check(start, count)
    return (_words(seed, name, start, count) >> 8).astype(np.float32) * np.float32(2.0**-24)


def normal(seed: int, name: str, start: int, count: int) -> Array:
    """Draw from the standard normal distribution (Box and Muller, in float64).

    Elements 2k and 2k + 1 are the cosine and sine branch of words 2k and 2k + 1.

    Parameters
    ----------
    seed, name, start, count : as for `uniform`.

    Returns
    -------
    (count,) float32.

    Raises
    ------
    ValueError : start or count is negative.
    """
    _check(start, count)
    first, last = start - start % 2, start + count + (start + count) % 2
    pairs = (_words(seed, name, first, last - first).astype(np.float64) + 0.5) * 2.0**-32
    radius, angle = np.sqrt(-2.0 * np.log(pairs[0::2])), 2.0 * np.pi * pairs[1::2]
    drawn = np.empty(last - first)
    drawn[0::2], drawn[1::2] = radius * np.cos(angle), radius * np.sin(angle)
    return drawn[start - first : start - first + count].astype(np.float32)


def _check(start: int, count: int) -> None:
    if start < 0 or count < 0:
        raise ValueError(
            f"random: start and count must not be negative, but are {start} and {count}"
        )


def _words(seed: int, name: str, start: int, count: int) -> NDArray[np.uint32]:
    """Draw 32-bit words at [start, start + count)."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    first, skip = divmod(start, _PER_COUNT)
    philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=first)
    raw = philox.random_raw(-(-(skip + count) // _PER_COUNT) * _PER_COUNT // 2)
    return raw.astype("<u8").view("<u4")[skip : skip + count].astype(np.uint32)
