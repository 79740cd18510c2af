"""The register tile that linear layers and attention multiply with: C (+)= A B, ROWS by COLUMNS.

A compiler does not find this loop on its own: all of C stays in vector registers, each step reads
one row of B as vectors and one column of A as scalars. It reaches the machine's multiply-add rate,
and it sums every element of C in one fixed order over the depth, whatever the sizes, the borders
or the number of threads; a BLAS library does not (OpenBLAS gives other bits for 1 and 2 threads).

References
----------
K. Goto, R. van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34(3), 2008.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from hcom.jit import jit
from ops.lanes import (
    FLOAT,
    INT64,
    LANES,
    VECTOR,
    WIDE,
    data,
    element,
    fma_code,
    load_code,
    splat_code,
    store_code,
)
from ops.seam import Array

COLUMNS = 2 * LANES
# Sums held in registers: 8 x 2 of 32 with AVX-512, 4 x 2 of 16 with AVX2. Eight independent
# multiply-adds are what two units of latency four can have under way. ROWS divides LANES.
ROWS = 8 if WIDE else 4


class Matrix(NamedTuple):
    """Where a matrix lies in a flat array: element (i, j) is `data[at + i * row + j * step]`."""

    data: Array
    at: int
    row: int
    step: int


class _Tile:
    """Writes the code of one tile multiplication at a builder's position."""

    def __init__(self, builder: Any, vectors: int) -> None:
        self.builder = builder
        self.lanes = [INT64(vector * LANES) for vector in range(vectors)]

    def rows(self, base: Any, at: Any, row: Any, rows: Any) -> list[Any]:
        """Addresses of the first ROWS rows; past `rows` the last one is repeated.

        A repeated row is computed again and stored again with the same value: no branch for
        ragged borders, and nothing outside the matrix is touched.
        """
        builder = self.builder
        last = builder.sub(rows, INT64(1))
        addresses = []
        for i in range(ROWS):
            inside = builder.icmp_signed("<", INT64(i), last)
            index = builder.select(inside, INT64(i), last)
            addresses.append(element(builder, base, builder.add(at, builder.mul(index, row))))
        return addresses

    def load(self, row: Any) -> list[Any]:
        """Load one row of the tile."""
        builder = self.builder
        return [load_code(builder, element(builder, row, lane)) for lane in self.lanes]

    def store(self, row: Any, values: list[Any]) -> None:
        """Store one row of the tile."""
        for lane, value in zip(self.lanes, values, strict=True):
            store_code(self.builder, value, element(self.builder, row, lane))

    def start(self, c_rows: list[Any], accumulate: Any) -> list[list[Any]]:
        """Give the sums their first values: C where `accumulate`, else zeros."""
        builder = self.builder
        zero = ir.Constant(VECTOR, [0.0] * LANES)
        origin = builder.block
        with builder.if_then(builder.icmp_signed("!=", accumulate, INT64(0))):
            loaded = [self.load(row) for row in c_rows]
            branch = builder.block
        sums = []
        for row in loaded:
            sums.append([builder.phi(VECTOR) for _ in row])
            for phi, value in zip(sums[-1], row, strict=True):
                phi.add_incoming(zero, origin)
                phi.add_incoming(value, branch)
        return sums

    def multiply(
        self, a_rows: list[Any], a_step: Any, b: Any, b_row: Any, sums: list[list[Any]], depth: Any
    ) -> list[list[Any]]:
        """Add the products of `depth` steps to the sums."""
        builder = self.builder
        before, head = builder.block, builder.append_basic_block("step")
        body, after = builder.append_basic_block("multiply"), builder.append_basic_block("done")
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(INT64)
        k.add_incoming(INT64(0), before)
        totals = [[builder.phi(VECTOR) for _ in row] for row in sums]
        builder.cbranch(builder.icmp_signed("<", k, depth), body, after)
        builder.position_at_end(body)
        b_vectors = self.load(element(builder, b, builder.mul(k, b_row)))
        a_at = builder.mul(k, a_step)
        for a_row, first, total in zip(a_rows, sums, totals, strict=True):
            scalar = builder.load(element(builder, a_row, a_at), typ=FLOAT)
            a = splat_code(builder, scalar)
            for phi, value, b_vector in zip(total, first, b_vectors, strict=True):
                phi.add_incoming(value, before)
                phi.add_incoming(fma_code(builder, a, b_vector, phi), body)
        k.add_incoming(builder.add(k, INT64(1)), body)
        builder.branch(head)
        builder.position_at_end(after)
        return totals


def _tile(vectors: int) -> Any:
    """Make the function that multiplies a tile of ROWS rows and `vectors` * LANES columns."""

    def multiply_tile(
        typing: Any, a: Any, at_a: Any, row_a: Any, step_a: Any, b: Any, at_b: Any, row_b: Any,
        c: Any, at_c: Any, row_c: Any, rows: Any, depth: Any, accumulate: Any,
    ) -> Any:  # fmt: skip
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            a, b, c = (data(context, builder, signature, args, i) for i in (0, 4, 7))
            tile = _Tile(builder, vectors)
            _, at_a, row_a, step_a, _, at_b, row_b, _, at_c, row_c, rows, depth, accumulate = args
            a_rows = tile.rows(a, at_a, row_a, rows)
            c_rows = tile.rows(c, at_c, row_c, rows)
            first = tile.start(c_rows, accumulate)
            b_first = element(builder, b, at_b)
            sums = tile.multiply(a_rows, step_a, b_first, row_b, first, depth)
            for c_row, values in zip(c_rows, sums, strict=True):
                tile.store(c_row, values)
            return context.get_dummy_value()

        i = types.int64
        return types.void(a, i, i, i, b, i, i, c, i, i, i, i, i), code

    return intrinsic(multiply_tile)


def _tile_in_python(vectors: int) -> Callable[..., None]:
    """Make the same function for runs without compiler; products are rounded before they add."""

    def multiply_tile(
        a: Array, at_a: int, row_a: int, step_a: int, b: Array, at_b: int, row_b: int,
        c: Array, at_c: int, row_c: int, rows: int, depth: int, accumulate: int,
    ) -> None:  # fmt: skip
        width = vectors * LANES
        for i in range(min(rows, ROWS)):
            target = c[at_c + i * row_c : at_c + i * row_c + width]
            if not accumulate:
                target[:] = 0
            for k in range(depth):
                b_row = b[at_b + k * row_b : at_b + k * row_b + width]
                target += a[at_a + i * row_a + k * step_a] * b_row

    return multiply_tile


_wide_tile = _tile_in_python(2) if config.DISABLE_JIT else _tile(2)
_narrow_tile = _tile_in_python(1) if config.DISABLE_JIT else _tile(1)


@jit(inline=True)
def part(x: Matrix, i: int, j: int) -> Matrix:
    """Return the matrix whose corner is element (i, j) of x."""
    return Matrix(x.data, x.at + i * x.row + j * x.step, x.row, x.step)


@jit()
def multiply(
    a: Matrix, b: Matrix, c: Matrix, rows: int, columns: int, depth: int, accumulate: bool
) -> None:
    """C (+)= A B with C rows x columns: sums continue from C where `accumulate`, else from 0.

    `columns` is a multiple of LANES; rows of B and C are contiguous (step 1).
    """
    wide = columns - columns % COLUMNS
    for row in range(0, rows, ROWS):
        at_a, at_c, left = a.at + row * a.row, c.at + row * c.row, rows - row
        for column in range(0, wide, COLUMNS):
            _wide_tile(
                a.data, at_a, a.row, a.step, b.data, b.at + column, b.row,
                c.data, at_c + column, c.row, left, depth, accumulate,
            )  # fmt: skip
        if wide < columns:
            _narrow_tile(
                a.data, at_a, a.row, a.step, b.data, b.at + wide, b.row,
                c.data, at_c + wide, c.row, left, depth, accumulate,
            )  # fmt: skip


@jit()
def scratch(size: int) -> Array:
    """Allocate `size` floats that start at a cache line, so that no vector straddles two."""
    memory = np.empty(size + 15, np.float32)
    start = (-(memory.ctypes.data >> 2)) & 15
    return memory[start : start + size]
