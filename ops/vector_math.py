"""Elementary functions as float32 polynomials that loops vectorise.

numba calls libm once per element for exp and log; these are inlined, take a float32 or LANES of
them, and give the same bits on every machine that has a fused multiply-add. Each returns the exact
limit where there is one, and NaN for NaN. Relative errors are below 1.2e-7.

References
----------
S. L. Moshier, Cephes Mathematical Library, expf.c, logf.c: ranges and coefficients.
"""

from typing import TypeVar

import numpy as np

from hcom.jit import jit
from ops.lanes import below, fma, power_of_two
from ops.seam import Array

# One float32, or LANES of them.
Value = TypeVar("Value", np.float32, Array)

F = np.float32
ZERO = F(0.0)
HALF = F(0.5)
ONE = F(1.0)
INFINITY = F(np.inf)
NAN = F(np.nan)

# 1.5 * 2^23 + 127: added to a float in [-127, 128], it leaves the nearest integer, with the bias of
# a float32 exponent, in the low bits.
ROUND = F(12582912.0 + 127.0)
LOG2_E = F(1.4426950408889634)
# ln 2 in two parts; the first has so few bits that n * LN2_HIGH is exact (Cody and Waite).
LN2_HIGH = F(0.693359375)
LN2_LOW = F(-2.12194440e-4)
EXP_LOW = F(-87.33654)  # ln of the smallest normal float32
EXP_HIGH = F(88.37626)  # 127.5 ln 2: above it 2^n is no float32
EXP = tuple(
    F(c) for c in (1.98756915e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                   1.6666665459e-1, 5.0000001201e-1)
)  # fmt: skip

LOG = tuple(
    F(c) for c in (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                   1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
                   3.3333331174e-1)
)  # fmt: skip
SQRT_HALF_BITS = F(0.70710677).view(np.int32)
MANTISSA = np.int32(0x007FFFFF)
SMALLEST_NORMAL = F(1.17549435e-38)
TWO_TO_24 = F(16777216.0)


@jit(inline=True)
def exp(x: Value) -> Value:
    """e^x; exactly 0 for x < -87.33 (no denormals), inf for x > 88.37."""
    rounded = fma(x, LOG2_E, ROUND)
    n = rounded - ROUND
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    p = fma(fma(fma(fma(fma(EXP[0], r, EXP[1]), r, EXP[2]), r, EXP[3]), r, EXP[4]), r, EXP[5])
    y = (fma(p, r * r, r) + ONE) * power_of_two(rounded)
    bounded: Value = below(x, EXP_LOW, ZERO, below(EXP_HIGH, x, INFINITY, y))
    return bounded


@jit(inline=True)
def log(x: np.float32) -> np.float32:
    """Natural logarithm; -inf for 0, NaN below."""
    tiny = x < SMALLEST_NORMAL
    bits = F(x * TWO_TO_24 if tiny else x).view(np.int32)
    # x = 2^n m with m in [sqrt(1/2), sqrt(2)): the border moved to sqrt(1/2) before shifting.
    shifted = np.int32(bits - SQRT_HALF_BITS)
    n = F(np.int32(shifted >> np.int32(23)))
    m = np.int32(np.int32(shifted & MANTISSA) + SQRT_HALF_BITS).view(np.float32)
    n = n - F(24.0) if tiny else n
    f = m - ONE
    p = fma(fma(fma(fma(LOG[0], f, LOG[1]), f, LOG[2]), f, LOG[3]), f, LOG[4])
    p = fma(fma(fma(fma(p, f, LOG[5]), f, LOG[6]), f, LOG[7]), f, LOG[8])
    square = f * f
    y = fma(n, LN2_LOW, p * f * square)
    y = fma(n, LN2_HIGH, fma(-HALF, square, y) + f)
    y = x if x == INFINITY else y
    y = -INFINITY if x == ZERO else y
    return y if x >= ZERO else NAN


@jit(inline=True)
def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x); exactly 0 or 1 where e^-x is inf or 0."""
    return ONE / (ONE + exp(ZERO - x))
