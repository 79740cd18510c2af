"""LANES floats as one value of a kernel: a vector register, with loads, stores and arithmetic.

A compiler turns plain loops into vector code only where it can prove much; in the inner loops of
attention it cannot. There a kernel says it: `load` gives a value of LANES floats, the operators,
`fma`, `below` and `power_of_two` work on it lane by lane, as they do on a single float32, and
`store` puts it back. A float32 beside it stands for all lanes. Run without compiler
(NUMBA_DISABLE_JIT), such a value is a numpy array.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

from ops.seam import Array

# 16 floats fill an AVX-512 register. Elsewhere 8: one AVX2 register, or two of Neon.
WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
LANES = 16 if WIDE else 8

FLOAT = ir.FloatType()
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)


class _Lanes(types.Type):  # type: ignore[misc]  # numba comes without types
    def __init__(self) -> None:
        super().__init__(name=f"Lanes({LANES})")


class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]  # numba comes without types
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


register_model(_Lanes)(_LanesModel)
_lanes = _Lanes()
_float = types.float32


def splat_code(builder: Any, value: Any) -> Any:
    """Write the copy of one float to all lanes."""
    if value.type == VECTOR:
        return value
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, INT32(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))


def _alike(builder: Any, values: Any) -> list[Any]:
    """Bring all values to vectors if one is."""
    if any(value.type == VECTOR for value in values):
        return [splat_code(builder, value) for value in values]
    return list(values)


def _widest(kinds: tuple[Any, ...]) -> Any:
    return _lanes if _lanes in kinds else _float


def _lane_by_lane(compiled: Callable[..., Any], in_python: Callable[..., Any], count: int) -> Any:
    """Make a function of `count` values, each a float32 or LANES of them.

    `compiled(builder, *values)` writes its code, `in_python(*values)` is the same in numpy.
    """
    if config.DISABLE_JIT:
        return in_python

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return compiled(builder, *_alike(builder, args))

    # An intrinsic takes its parameters from the signature, so there is one for each count.
    def of_one(typing: Any, a: Any) -> Any:
        return _widest((a,))(a), code

    def of_three(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return _widest((a, b, c))(a, b, c), code

    def of_four(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return _widest((a, b, c, d))(a, b, c, d), code

    return intrinsic({1: of_one, 3: of_three, 4: of_four}[count])


def fma_code(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Write the code of a fused multiply-add of floats or vectors."""
    name = "llvm.fma.f32" if a.type == FLOAT else f"llvm.fma.v{LANES}f32"
    kind = ir.FunctionType(a.type, [a.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def _below(builder: Any, x: Any, limit: Any, yes: Any, no: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, limit), yes, no)


def _below_in_python(x: Any, limit: Any, yes: Any, no: Any) -> Any:
    chosen: Any = np.where(x < limit, yes, no)
    return chosen[()]


def _power_of_two(builder: Any, x: Any) -> Any:
    ints = INT32 if x.type == FLOAT else ir.VectorType(INT32, LANES)
    places = ir.Constant(ints, 23 if x.type == FLOAT else [23] * LANES)
    return builder.bitcast(builder.shl(builder.bitcast(x, ints), places), x.type)


def _power_of_two_in_python(x: Any) -> Any:
    return (x.view(np.int32) << np.int32(23)).view(np.float32)


# a * b + c, rounded once (twice without compiler).
fma = _lane_by_lane(fma_code, lambda a, b, c: a * b + c, 3)
# `yes` where x < limit, else `no`, so also where x is NaN: below(x, limit, yes, no).
below = _lane_by_lane(_below, _below_in_python, 4)
# 2^n from a float whose lowest bits hold n + 127.
power_of_two = _lane_by_lane(_power_of_two, _power_of_two_in_python, 1)


def _operators() -> None:
    """Teach numba the operators of Lanes."""
    pairs = ((_lanes, _lanes), (_lanes, _float), (_float, _lanes))
    for symbol, instruction in (
        (operator.add, "fadd"),
        (operator.sub, "fsub"),
        (operator.mul, "fmul"),
        (operator.truediv, "fdiv"),
    ):

        def code(
            context: Any, builder: Any, signature: Any, args: Any, instruction: str = instruction
        ) -> Any:
            return getattr(builder, instruction)(*_alike(builder, args))

        cases = [_lanes(*pair) for pair in pairs]
        infer_global(symbol)(type("LanesTemplate", (ConcreteTemplate,), {"cases": cases}))
        for pair in pairs:
            lower_builtin(symbol, *pair)(code)


_operators()


def element(builder: Any, base: Any, offset: Any) -> Any:
    """Write the address of a float."""
    return builder.gep(base, [offset], source_etype=FLOAT)


def load_code(builder: Any, pointer: Any) -> Any:
    """Write a load of LANES floats from any address."""
    return builder.load(pointer, typ=VECTOR, align=4)


def store_code(builder: Any, value: Any, pointer: Any) -> None:
    """Write a store of LANES floats to any address."""
    builder.store(value, builder.bitcast(pointer, VECTOR.as_pointer()), align=4)


def data(context: Any, builder: Any, signature: Any, args: Any, index: int) -> Any:
    """Write the address of an array argument's first float."""
    return context.make_array(signature.args[index])(context, builder, args[index]).data


def _load(typing: Any, x: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return load_code(
            builder, element(builder, data(context, builder, signature, args, 0), args[1])
        )

    return _lanes(x, types.int64), code


def _load_in_python(x: Array, at: int) -> Array:
    return x[at : at + LANES].copy()


def _store(typing: Any, x: Any, at: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = element(builder, data(context, builder, signature, args, 0), args[1])
        store_code(builder, splat_code(builder, args[2]), target)
        return context.get_dummy_value()

    return types.void(x, types.int64, value), code


def _store_in_python(x: Array, at: int, value: Any) -> None:
    x[at : at + LANES] = value


def _from_lane(typing: Any, first: Any, x: Any, before: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ints = ir.VectorType(INT32, LANES)
        first = builder.trunc(args[0], INT32)
        one = builder.insert_element(ir.Constant(ints, ir.Undefined), first, INT32(0))
        firsts = builder.shuffle_vector(one, one, ir.Constant(ints, [0] * LANES))
        numbers = ir.Constant(ints, list(range(LANES)))
        kept = builder.icmp_signed(">=", numbers, firsts)
        return builder.select(kept, args[1], splat_code(builder, args[2]))

    return _lanes(types.int64, _lanes, before), code


def _from_lane_in_python(first: int, x: Array, before: np.float32) -> Array:
    return np.where(np.arange(LANES) >= first, x, before)


# LANES floats of a flat array from `at` on: load(x, at); store(x, at, value).
load: Any = _load_in_python if config.DISABLE_JIT else intrinsic(_load)
store: Any = _store_in_python if config.DISABLE_JIT else intrinsic(_store)
# x in the lanes from `first` on, `before` in those below: from_lane(first, x, before).
from_lane: Any = _from_lane_in_python if config.DISABLE_JIT else intrinsic(_from_lane)
