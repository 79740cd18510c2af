"""Fold loops: several operands of one position become one value, from left to right.

`fold(target, twin, sources, count, elements, streamed)` takes addresses: `sources` is that of
`count` int64 addresses, two at least; `twin` a second place for the result, or 0; `streamed` is 1
where the target is written past the caches. The target may be one of the sources. Types of 16
bits are added in fp32 and rounded once, at the end (design: 'Order'); the others are added in
their own type, integers modulo 2^n.
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
from hcom.transport.layout import LINE
from hcom.transport.stream import block_on_stack, copy, copy_streamed

SIGNATURE = types.void(*[types.int64] * 6)

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


@jit(inline=True)
def _deliver(block: int, target: int, twin: int, nbytes: int, streamed: int) -> None:
    """Bring a finished block to where it is wanted."""
    if twin != 0:
        copy(twin, block, nbytes)
    if streamed != 0:
        copy_streamed(target, block, nbytes)
    else:
        copy(target, block, nbytes)


@jit(inline=True)
def _first_block(target: int, nbytes: int) -> int:
    """Elements of the first block: later ones start on a cache line of the target."""
    return int(BLOCK - target % LINE // nbytes)


def _fold_loop(kind: Any, code: int) -> Callable[..., None]:
    """Fold in the storage type itself."""
    nbytes = np.dtype(kind).itemsize

    def fold(
        target: int, twin: int, sources: int, count: int, elements: int, streamed: int
    ) -> None:
        # The target may be a later operand, so a partial result has a place of its own.
        place = block_on_stack()
        direct = count == 2 and twin == 0 and streamed == 0
        start, end = 0, min(elements, _first_block(target, nbytes))
        # Every array is made anew at the block's start: an index from 0 is known not to be
        # negative, and only then does the loop vectorise.
        while start < elements:
            size, at = end - start, start * nbytes
            into = numba.carray(pointer(target + at if direct else place), (size,), kind)
            first = numba.carray(pointer(load_int(sources) + at), (size,), kind)
            second = numba.carray(pointer(load_int(sources + 8) + at), (size,), kind)
            for i in range(size):
                into[i] = _step(code, first[i], second[i])
            for s in range(2, count):
                other = numba.carray(pointer(load_int(sources + 8 * s) + at), (size,), kind)
                for i in range(size):
                    into[i] = _step(code, into[i], other[i])
            if not direct:
                also = 0 if twin == 0 else twin + at
                _deliver(place, target + at, also, size * nbytes, streamed)
            start, end = end, min(elements, end + BLOCK)

    return fold


@jit(inline=True)
def _widen(brain: bool, x: Any) -> Any:
    return _brain_to_float(x) if brain else _half_to_float(x)


@jit(inline=True)
def _narrow(brain: bool, x: Any) -> Any:
    return _float_to_brain(x) if brain else _float_to_half(x)


def _wide_fold_loop(brain: bool, code: int) -> Callable[..., None]:
    """Fold 16-bit values (bf16 or fp16) in fp32, rounded once at the end."""

    def fold(
        target: int, twin: int, sources: int, count: int, elements: int, streamed: int
    ) -> None:
        place, narrow = block_on_stack(), block_on_stack()
        direct = twin == 0 and streamed == 0
        start, end = 0, min(elements, _first_block(target, 2))
        while start < elements:
            size, at = end - start, start * 2
            block = numba.carray(pointer(place), (size,), np.float32)
            first = numba.carray(pointer(load_int(sources) + at), (size,), np.uint16)
            second = numba.carray(pointer(load_int(sources + 8) + at), (size,), np.uint16)
            for i in range(size):
                block[i] = _step(code, _widen(brain, first[i]), _widen(brain, second[i]))
            for s in range(2, count):
                other = numba.carray(pointer(load_int(sources + 8 * s) + at), (size,), np.uint16)
                for i in range(size):
                    block[i] = _step(code, block[i], _widen(brain, other[i]))
            out = numba.carray(pointer(target + at if direct else narrow), (size,), np.uint16)
            for i in range(size):
                out[i] = _narrow(brain, block[i])
            if not direct:
                also = 0 if twin == 0 else twin + at
                _deliver(narrow, target + at, also, size * 2, streamed)
            start, end = end, min(elements, end + BLOCK)

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
