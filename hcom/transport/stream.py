"""Copies of large pieces: vector loads and stores of our own, around the caches where that pays.

The C library copies large pieces with `rep movsb`, which on AMD's Zen cores falls to a fraction of
its speed when the target lies a few bytes behind the source modulo 4 KiB (glibc bug 30994), as
numpy's arrays do behind page-aligned slots. A *streamed* store goes past the caches: the line
is not fetched first and displaces nothing, which saves a third of the traffic of data that is too
large to be found in a cache again.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hcom.jit import intrinsic, jit
from hcom.transport.atomics import memcpy

# Bytes moved by one turn of the loops, and the alignment of a streamed store.
TURN = 256
VECTOR = 32
# Below this the C library's copy is as good.
SHORT = 2048


def _mover(streamed: bool) -> Any:
    @intrinsic
    def move(typing: Any, target: Any, source: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.VectorType(ir.IntType(64), VECTOR // 8)
            into, out_of = (builder.inttoptr(a, kind.as_pointer()) for a in args)
            values = []
            for i in range(TURN // VECTOR):
                place = builder.gep(out_of, [ir.Constant(ir.IntType(64), i)], source_etype=kind)
                values.append(builder.load(place, align=1, typ=kind))
            for i, value in enumerate(values):
                place = builder.gep(into, [ir.Constant(ir.IntType(64), i)], source_etype=kind)
                stored = builder.store(value, place, align=VECTOR if streamed else 1)
                if streamed:
                    one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                    stored.set_metadata("nontemporal", one)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    return move


_move = _mover(False)
_move_streamed = _mover(True)


# Bytes of a block that is filled before it goes on: it stays in the first-level cache.
BLOCK_BYTES = 8192


@intrinsic
def block_on_stack(typing: Any) -> Any:
    """Give the address of BLOCK_BYTES that live as long as the calling kernel."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.ArrayType(ir.VectorType(ir.IntType(64), VECTOR // 8), BLOCK_BYTES // VECTOR)
        place = cgutils.alloca_once(builder, kind)
        return builder.ptrtoint(place, ir.IntType(64))

    return types.int64(), code


@jit()
def copy(target: int, source: int, nbytes: int) -> None:
    """Copy bytes that do not overlap."""
    turns = nbytes // TURN if nbytes >= SHORT else 0
    for i in range(turns):
        _move(target + i * TURN, source + i * TURN)
    done = turns * TURN
    if nbytes > done:
        memcpy(target + done, source + done, nbytes - done)


@jit()
def copy_streamed(target: int, source: int, nbytes: int) -> None:
    """Copy bytes that do not overlap, past the caches. Fence before another core is told."""
    head = -target % VECTOR if nbytes >= SHORT else 0
    if head > 0:
        memcpy(target, source, head)
    turns = (nbytes - head) // TURN if nbytes >= SHORT else 0
    for i in range(turns):
        _move_streamed(target + head + i * TURN, source + head + i * TURN)
    done = head + turns * TURN
    if nbytes > done:
        memcpy(target + done, source + done, nbytes - done)
