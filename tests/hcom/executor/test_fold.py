"""Fold loops against numpy: order, rounding and aliasing, for every type and operation."""

import ctypes
import functools
import itertools

import ml_dtypes
import numpy as np
import pytest

from hcom.data_type import DATA_TYPES, REDUCE_OPS
from hcom.executor.fold import BLOCK, fold_address

SIZES = [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5]
REDUCED = [kind for kind in DATA_TYPES if not kind.name.startswith("fp8")]
UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
KIND = {kind.name: kind for kind in DATA_TYPES}
NARROW = ("fp16", "bfp16")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def loop_of(kind, op):
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(fold_address(kind, op))


def fold(kind, op, operands, alias=None, twin=None, streamed=False):
    """Fold arrays into a new one, or into the operand number `alias`, and into a twin."""
    operands = [operand.copy() for operand in operands]
    kept = [operand.tobytes() for operand in operands]
    target = np.full_like(operands[0], 1) if alias is None else operands[alias]
    sources = np.array([operand.ctypes.data for operand in operands], np.int64)
    also = 0 if twin is None else twin.ctypes.data
    count, size = len(operands), target.size
    loop_of(kind, op)(target.ctypes.data, also, sources.ctypes.data, count, size, int(streamed))
    for number, operand in enumerate(operands):
        assert number == alias or operand.tobytes() == kept[number]
    return target


def expected(kind, op, operands):
    """Fold from left to right by numpy: 16-bit floats in fp32, rounded once at the end."""
    with np.errstate(over="ignore"):
        if kind.name in NARROW:
            operands = [operand.astype(np.float32) for operand in operands]
        return functools.reduce(UFUNCS[op], operands).astype(kind.numpy)


def drawn(kind, count, size, seed=0):
    """Random operands over the whole range of an integer type, of mixed magnitude for floats."""
    rng = np.random.default_rng([kind.number, count, size, seed])
    if kind.name == "bool":
        return [rng.integers(0, 2, size).astype(np.bool_) for _ in range(count)]
    if kind.numpy.kind in "iu":
        ends = np.iinfo(kind.numpy)
        return [
            rng.integers(ends.min, ends.max, size, kind.numpy, endpoint=True) for _ in range(count)
        ]
    scale = 2.0 ** rng.integers(-4, 5, (count, size))
    return list((rng.standard_normal((count, size)) * scale).astype(kind.numpy))


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("kind", REDUCED, ids=lambda kind: kind.name)
def test_every_loop_folds_from_left_to_right_as_numpy_does(kind, op):
    for count in (2, 3, 4, 5):
        for size in SIZES:
            operands = drawn(kind, count, size)
            right = expected(kind, op, operands)
            assert fold(kind, op, operands).tobytes() == right.tobytes(), (count, size)


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("kind", REDUCED, ids=lambda kind: kind.name)
def test_the_target_may_be_any_of_the_operands(kind, op):
    for count in (2, 3, 4, 5):
        for size in (1, BLOCK, BLOCK + 3):
            operands = drawn(kind, count, size)
            right = expected(kind, op, operands).tobytes()
            for alias in range(count):
                assert fold(kind, op, operands, alias).tobytes() == right, (count, size, alias)


@pytest.mark.parametrize("kind", REDUCED, ids=lambda kind: kind.name)
def test_a_result_goes_to_a_twin_too_and_past_the_caches(kind):
    for count, size, streamed in itertools.product((2, 3), SIZES, (False, True)):
        operands = drawn(kind, count, size)
        right = expected(kind, "sum", operands).tobytes()
        for alias in (None, 0, count - 1):
            twin = np.full(size, 1, kind.numpy)
            assert fold(kind, "sum", operands, alias, twin, streamed).tobytes() == right
            assert twin.tobytes() == right
            assert fold(kind, "sum", operands, alias, None, streamed).tobytes() == right


@pytest.mark.parametrize("kind", REDUCED, ids=lambda kind: kind.name)
def test_nothing_beside_the_target_is_written(kind):
    loop = loop_of(kind, "sum")
    for size, shift, streamed in itertools.product(SIZES, (0, 1, 31), (0, 1)):
        operands = drawn(kind, 3, size)
        whole, twin = np.zeros((2, size + 96), kind.numpy)
        sources = np.array([operand.ctypes.data for operand in operands], np.int64)
        places = [array[32 + shift :].ctypes.data for array in (whole, twin)]
        loop(*places, sources.ctypes.data, 3, size, streamed)
        for array in (whole, twin):
            assert not array[: 32 + shift].any()
            assert not array[32 + shift + size :].any()


@pytest.mark.parametrize("kind", ["fp16", "bfp16", "fp32", "fp64"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_a_nan_on_either_side_wins_and_infinities_are_ordered(kind, op):
    kind = KIND[kind]
    edge = [np.nan, np.inf, -np.inf, 1.0, -1.0]
    left, right = (side.ravel().astype(kind.numpy) for side in np.meshgrid(edge, edge))
    for operands in ([left, right], [left, right, right], [right, left, right, left]):
        result = fold(kind, op, operands).astype(np.float64)
        wide = [operand.astype(np.float64) for operand in operands]
        np.testing.assert_array_equal(result, functools.reduce(UFUNCS[op], wide))


@pytest.mark.parametrize("kind", ["fp16", "bfp16", "fp32", "fp64"])
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_nan_and_infinity_pass_through_sums_and_products(kind, op):
    kind = KIND[kind]
    edge = [np.nan, np.inf, -np.inf, 0.0, -2.0]
    left, right = (side.ravel().astype(kind.numpy) for side in np.meshgrid(edge, edge))
    with np.errstate(invalid="ignore"):
        right_result = UFUNCS[op](left.astype(np.float64), right.astype(np.float64))
    np.testing.assert_array_equal(fold(kind, op, [left, right]).astype(np.float64), right_result)


def test_every_nan_of_bf16_stays_a_nan():
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    values = bits.view(BFLOAT16)
    result = fold(KIND["bfp16"], "sum", [values, np.zeros_like(values)])
    # By their bits: numpy warns about signalling ones.
    assert np.array_equal((result.view(np.uint16) & 0x7FFF) > 0x7F80, (bits & 0x7FFF) > 0x7F80)


@pytest.mark.parametrize("kind", NARROW)
def test_a_sum_of_two_16_bit_values_is_rounded_to_nearest_even(kind):
    """All pairs of one value with a half step, just below, and just above it."""
    kind = KIND[kind]
    mantissa = 10 if kind.name == "fp16" else 7
    step = 2.0**-mantissa
    base = 1 + step * np.arange(2**mantissa)
    for part, up in ((0.5, None), (0.5 - 2**-5, False), (0.5 + 2**-5, True)):
        x = base.astype(kind.numpy)
        y = np.full_like(x, part * step)
        result = fold(kind, "sum", [x, y]).astype(np.float64)
        odd = np.arange(2**mantissa) % 2 == 1  # a tie goes to the even neighbour
        goes_up = odd if up is None else np.full(x.shape, up)
        np.testing.assert_array_equal(result, base + step * goes_up)


@pytest.mark.parametrize("kind", NARROW)
def test_16_bit_values_are_rounded_once_however_many_there_are(kind):
    kind = KIND[kind]
    half_step = 2.0**-11 if kind.name == "fp16" else 2.0**-8
    operands = [np.array([value], kind.numpy) for value in (1.0, half_step, half_step)]
    # Rounding after each addition would lose both halves.
    assert fold(kind, "sum", operands).astype(np.float64).item() == 1 + 2 * half_step


def test_values_beyond_the_range_of_fp16_become_infinite_at_the_end_only():
    most = np.array([65504.0], np.float16)
    assert np.isinf(fold(KIND["fp16"], "sum", [most, most]).item())
    assert fold(KIND["fp16"], "sum", [most, most, -most]).item() == 65504.0


def test_subnormal_16_bit_values_keep_their_value():
    for kind in NARROW:
        bits = np.arange(1, 64, dtype=np.uint16)
        values = bits.view(KIND[kind].numpy)
        result = fold(KIND[kind], "sum", [values, values])
        assert np.array_equal(result.view(np.uint16), 2 * bits)


def test_a_bool_sum_is_or_and_a_product_is_and():
    x = np.array([False, False, True, True])
    y = np.array([False, True, False, True])
    results = {op: fold(KIND["bool"], op, [x, y, y]).tolist() for op in UFUNCS}
    either, both = [False, True, True, True], [False, False, False, True]
    assert results == {"sum": either, "max": either, "prod": both, "min": both}


def test_an_average_is_folded_as_a_sum():
    operands = drawn(KIND["fp32"], 3, 100)
    assert "avg" in REDUCE_OPS
    result = fold(KIND["fp32"], "avg", operands)
    assert result.tobytes() == expected(KIND["fp32"], "sum", operands).tobytes()
