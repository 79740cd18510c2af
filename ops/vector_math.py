"""Elementary functions as float32 polynomials that loops vectorise.

numba calls libm once per element for exp, log and tanh; these are inlined and run 16 lanes at a
time, and give the same bits on every machine that has a fused multiply-add. Each returns the exact
limit where there is one, and NaN for NaN. Relative errors are below 1.2e-7.

References
----------
S. L. Moshier, Cephes Mathematical Library, expf.c, logf.c, tanhf.c: ranges and coefficients.
"""

from typing import Any

import numpy as np
from numba import types
from numba.core import config
from numba.extending import intrinsic

from hcom.jit import jit

F = np.float32
ZERO = F(0.0)
HALF = F(0.5)
ONE = F(1.0)
TWO = F(2.0)
INFINITY = F(np.inf)
NAN = F(np.nan)

# 1.5 * 2^23: added to a float below 2^22, it leaves the nearest integer in the low bits.
ROUND = F(12582912.0)
ROUND_BITS = ROUND.view(np.int32)
LOG2_E = F(1.4426950408889634)
# ln 2 in two parts; the first has so few bits that n * LN2_HIGH is exact (Cody and Waite).
LN2_HIGH = F(0.693359375)
LN2_LOW = F(-2.12194440e-4)
EXP_LOW = F(-87.33654)  # ln of the smallest normal float32
EXP_HIGH = F(88.72283)  # ln of the largest float32
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

TANH = tuple(
    F(c) for c in (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                   -3.33332819422e-1)
)  # fmt: skip
TANH_SMALL = F(0.625)


def _fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), code


def _twice_rounded(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    return F(a * b + c)


# a * b + c with one rounding. Written out, so that no compiler flag decides whether it is one.
fma: Any = _twice_rounded if config.DISABLE_JIT else intrinsic(_fused)


@jit(inline=True)
def exp(x: np.float32) -> np.float32:
    """e^x; exactly 0 below the smallest normal float32 (x < -87.33), inf above the largest."""
    n = np.int32(F(fma(x, LOG2_E, ROUND)).view(np.int32) - ROUND_BITS)
    r = fma(-F(n), LN2_LOW, fma(-F(n), LN2_HIGH, x))
    p = fma(fma(fma(fma(fma(EXP[0], r, EXP[1]), r, EXP[2]), r, EXP[3]), r, EXP[4]), r, EXP[5])
    p = fma(p, r * r, r) + ONE
    y = np.int32(F(p).view(np.int32) + np.int32(n << np.int32(23))).view(np.float32)
    y = ZERO if x < EXP_LOW else y
    y = INFINITY if x > EXP_HIGH else y
    return x if x != x else y


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
def tanh(x: np.float32) -> np.float32:
    """Hyperbolic tangent; exactly +-1 where it rounds to that."""
    z = x * x
    p = fma(fma(fma(fma(TANH[0], z, TANH[1]), z, TANH[2]), z, TANH[3]), z, TANH[4])
    small = fma(p * z, x, x)
    size = abs(x)
    large = ONE - TWO / (exp(size + size) + ONE)
    large = -large if x < ZERO else large
    return small if size < TANH_SMALL else large


@jit(inline=True)
def sigmoid(x: np.float32) -> np.float32:
    """1 / (1 + e^-x); exactly 0 or 1 where e^-x is inf or 0."""
    return ONE / (ONE + exp(-x))
