"""Fold loops: several operands of one position become one value, from left to right.

`fold(target, sources, count, elements)` takes addresses: `sources` is that of `count` int64
addresses. The target may be one of the sources. Types of 16 bits are added in fp32 and rounded
once, at the end (design: 'Order'); the others are added in their own type, integers modulo 2^n.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types

from hcom.data_type import DataType
from hcom.jit import cfunc, intrinsic, jit
from hcom.transport.atomics import load_int, pointer

SIGNATURE = types.void(types.int64, types.int64, types.int64, types.int64)

# Elements folded at a time: a block of fp32 partial sums (4 KiB) stays in the first-level cache
# while the operands pass by, however many there are.
BLOCK = 1024


_SUM, _PROD, _MAX, _MIN = range(4)
_STEPS = {"sum": _SUM, "avg": _SUM, "prod": _PROD, "max": _MAX, "min": _MIN}
# On bool, sum is "or" and prod is "and".
_BOOL_STEPS = {"sum": _MAX, "max": _MAX, "prod": _MIN, "min": _MIN}


@jit(inline=True)
def _step(code: int, a: Any, b: Any) -> Any:
    """One operand more; `code` is a constant of the loop, so only one branch is left of this."""
    if code == _SUM:
        return a + b
    if code == _PROD:
        return a * b
    # A NaN on either side wins, as in numpy.maximum.
    if code == _MAX:
        return a if (a > b or a != a) else b
    return a if (a < b or a != a) else b


def _converter(widen: Callable[..., Any], source: Any, result: Any) -> Any:
    @intrinsic
    def convert(typing: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return widen(builder, args[0])

        return result(source), code

    return convert


_half_to_float = _converter(
    lambda b, x: b.fpext(b.bitcast(x, ir.HalfType()), ir.FloatType()), types.uint16, types.float32
)
_float_to_half = _converter(
    lambda b, x: b.bitcast(b.fptrunc(x, ir.HalfType()), ir.IntType(16)), types.float32, types.uint16
)
_bits = _converter(lambda b, x: b.bitcast(x, ir.IntType(32)), types.float32, types.uint32)
_from_bits = _converter(lambda b, x: b.bitcast(x, ir.FloatType()), types.uint32, types.float32)


@jit(inline=True)
def _brain_to_float(x: Any) -> Any:
    return _from_bits(np.uint32(np.uint32(x) << np.uint32(16)))


@jit(inline=True)
def _float_to_brain(x: Any) -> Any:
    """Round to nearest, ties to even; a NaN stays one."""
    bits = _bits(x)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    chosen = rounded if x == x else np.uint32(bits | np.uint32(0x400000))
    return np.uint16(chosen >> np.uint32(16))


def _fold_loop(kind: Any, code: int) -> Callable[..., None]:
    """Fold in the storage type itself."""
    nbytes = np.dtype(kind).itemsize

    def fold(target: int, sources: int, count: int, elements: int) -> None:
        # The target may be a later operand, so a partial result has a place of its own.
        block = np.empty(BLOCK if count > 2 else 0, kind)
        # Every array is made anew at the block's start: an index from 0 is known not to be
        # negative, and only then does the loop vectorise.
        for start in range(0, elements, BLOCK):
            size = min(BLOCK, elements - start)
            at = start * nbytes
            out = numba.carray(pointer(target + at), (size,), kind)
            first = numba.carray(pointer(load_int(sources) + at), (size,), kind)
            second = numba.carray(pointer(load_int(sources + 8) + at), (size,), kind)
            if count == 2:
                for i in range(size):
                    out[i] = _step(code, first[i], second[i])
                continue
            for i in range(size):
                block[i] = _step(code, first[i], second[i])
            for s in range(2, count):
                other = numba.carray(pointer(load_int(sources + 8 * s) + at), (size,), kind)
                for i in range(size):
                    block[i] = _step(code, block[i], other[i])
            for i in range(size):
                out[i] = block[i]

    return fold


@jit(inline=True)
def _widen(brain: bool, x: Any) -> Any:
    return _brain_to_float(x) if brain else _half_to_float(x)


@jit(inline=True)
def _narrow(brain: bool, x: Any) -> Any:
    return _float_to_brain(x) if brain else _float_to_half(x)


def _wide_fold_loop(brain: bool, code: int) -> Callable[..., None]:
    """Fold 16-bit values (bf16 or fp16) in fp32, rounded once at the end."""

    def fold(target: int, sources: int, count: int, elements: int) -> None:
        block = np.empty(BLOCK, np.float32)
        for start in range(0, elements, BLOCK):
            size = min(BLOCK, elements - start)
            at = start * 2
            first = numba.carray(pointer(load_int(sources) + at), (size,), np.uint16)
            for i in range(size):
                block[i] = _widen(brain, first[i])
            for s in range(1, count):
                other = numba.carray(pointer(load_int(sources + 8 * s) + at), (size,), np.uint16)
                for i in range(size):
                    block[i] = _step(code, block[i], _widen(brain, other[i]))
            out = numba.carray(pointer(target + at), (size,), np.uint16)
            for i in range(size):
                out[i] = _narrow(brain, block[i])

    return fold


@cache
def fold_address(kind: DataType, op: str) -> int:
    """Compile (or load) the fold loop of a type and operation and return its address."""
    if kind.name in ("fp16", "bfp16"):
        loop = _wide_fold_loop(kind.name == "bfp16", _STEPS[op])
    elif kind.name == "bool":
        loop = _fold_loop(np.uint8, _BOOL_STEPS[op])
    else:
        loop = _fold_loop(kind.numpy.type, _STEPS[op])
    return int(cfunc(SIGNATURE)(loop).address)
