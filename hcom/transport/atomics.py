"""What kernels need below numpy: memory at an address, ordered access, calls of the system.

Addresses are int64 numbers, as they stand in the executor's tables. Orderings are the usual ones:
a value stored with `store_release` and seen by `load_acquire` brings with it all that was written
before it. External functions are named, not captured as pointers, so that kernels stay cacheable.
"""

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hcom.jit import intrinsic

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_F64 = ir.DoubleType()

memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Turn an address into the void pointer that `numba.carray` takes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _pointer(builder, args[0], _I8)

    return types.voidptr(types.int64), code


def _loader(kind: Any, result: Any, ordering: str | None) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _pointer(builder, args[0], kind)
            if ordering is None:
                return builder.load(where, typ=kind)
            return builder.load_atomic(where, ordering, 8, typ=kind)

        return result(types.int64), code

    return load


def _storer(kind: Any, argument: Any, ordering: str | None) -> Any:
    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _pointer(builder, args[0], kind)
            if ordering is None:
                builder.store(args[1], where)
            else:
                builder.store_atomic(args[1], where, ordering, 8)
            return context.get_dummy_value()

        return types.void(types.int64, argument), code

    return store


load_int = _loader(_I64, types.int64, None)
load_acquire = _loader(_I64, types.int64, "acquire")
load_float = _loader(_F64, types.float64, None)
store_int = _storer(_I64, types.int64, None)
store_release = _storer(_I64, types.int64, "release")
store_float = _storer(_F64, types.float64, None)


@intrinsic
def add_int32(typing: Any, address: Any, value: Any) -> Any:
    """Add atomically to the 32-bit word at an address (a futex word)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.trunc(args[1], _I32)
        builder.atomic_rmw("add", _pointer(builder, args[0], _I32), value, "seq_cst")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def add_int(typing: Any, address: Any, value: Any) -> Any:
    """Add atomically to the 64-bit word at an address and return its former value."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0], _I64), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def load_int32(typing: Any, address: Any) -> Any:
    """Load the 32-bit word at an address (acquire), widened to int64."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = builder.load_atomic(_pointer(builder, args[0], _I32), "acquire", 4, typ=_I32)
        return builder.sext(word, _I64)

    return types.int64(types.int64), code


@intrinsic
def store_int32(typing: Any, address: Any, value: Any) -> Any:
    """Store the low half of an int64 as the 32-bit word at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[1], _I32), _pointer(builder, args[0], _I32))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def fence(typing: Any) -> Any:
    """Order all earlier stores before all later loads."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def monotonic(typing: Any) -> Any:
    """Nanoseconds of CLOCK_MONOTONIC, the clock of `time.perf_counter`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I32, _I64.as_pointer()])
        call = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        pair = cgutils.alloca_once(builder, _I64, size=2)
        builder.call(call, [ir.Constant(_I32, 1), pair])
        second = builder.load(pair, typ=_I64)
        nano = builder.load(builder.gep(pair, [ir.Constant(_I32, 1)], source_etype=_I64), typ=_I64)
        return builder.add(builder.mul(second, ir.Constant(_I64, 1_000_000_000)), nano)

    return types.int64(), code


def _system_call(builder: Any, *args: Any) -> Any:
    kind = ir.FunctionType(_I64, [_I64] * 7)
    call = cgutils.get_or_insert_function(builder.module, kind, "syscall")
    words = [a if not isinstance(a, int) else ir.Constant(_I64, a) for a in args]
    return builder.call(call, words + [ir.Constant(_I64, 0)] * (7 - len(words)))


@intrinsic
def futex_wait(typing: Any, address: Any, expected: Any, nanoseconds: Any) -> Any:
    """Sleep while the 32-bit word holds `expected`, at most so long (futex(2), shared)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair = cgutils.alloca_once(builder, _I64, size=2)
        builder.store(ir.Constant(_I64, 0), pair)
        builder.store(args[2], builder.gep(pair, [ir.Constant(_I32, 1)], source_etype=_I64))
        timeout = builder.ptrtoint(pair, _I64)
        return _system_call(builder, SYS_FUTEX, args[0], 0, args[1], timeout)

    return types.int64(types.int64, types.int64, types.int64), code


@intrinsic
def futex_wake(typing: Any, address: Any) -> Any:
    """Wake all that sleep on the 32-bit word."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _system_call(builder, SYS_FUTEX, args[0], 1, 2**31 - 1)

    return types.int64(types.int64), code


@intrinsic
def process_vm_readv(typing: Any, pid: Any, target: Any, source: Any, nbytes: Any) -> Any:
    """Copy from another process's address to ours (process_vm_readv(2)); bytes read or -1."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        local = cgutils.alloca_once(builder, _I64, size=2)
        remote = cgutils.alloca_once(builder, _I64, size=2)
        one = ir.Constant(_I32, 1)
        for vector, start in ((local, args[1]), (remote, args[2])):
            builder.store(start, vector)
            builder.store(args[3], builder.gep(vector, [one], source_etype=_I64))
        ends = [builder.ptrtoint(vector, _I64) for vector in (local, remote)]
        return _system_call(builder, SYS_READV, args[0], ends[0], 1, ends[1], 1, 0)

    return types.int64(types.int64, types.int64, types.int64, types.int64), code


@intrinsic
def call_fold(
    typing: Any,
    function: Any,
    target: Any,
    twin: Any,
    sources: Any,
    count: Any,
    elements: Any,
    streamed: Any,
) -> Any:
    """Call a fold loop by its address, see `hcom.executor.fold`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I64] * 6)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), code


def _system_call_number(x86_64: int, generic: int) -> int:
    return x86_64 if platform.machine() == "x86_64" else generic


SYS_FUTEX = _system_call_number(202, 98)
SYS_READV = _system_call_number(310, 270)
