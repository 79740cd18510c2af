import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hcom.jit import jit
from ops.tile import COLUMNS, LANES, ROWS, Matrix, multiply, scratch

SENTINEL = np.float32(77)


@jit()
def run(a, a_row, a_step, b, c, c_row, rows, columns, depth, accumulate):
    b_all, c_all = Matrix(b, 0, columns, 1), Matrix(c, 2 * c_row + 3, c_row, 1)
    multiply(Matrix(a, 0, a_row, a_step), b_all, c_all, rows, columns, depth, accumulate)


def product(a, b, *, by_columns=False, start=None):
    """Multiply inside a frame of sentinels, and return the frame and what it holds."""
    (rows, depth), columns = a.shape, b.shape[1]
    frame = np.full((rows + 4, columns + 7), SENTINEL)
    inside = frame[2:-2, 3:-4]
    if start is not None:
        inside[:] = start
    flat, strides = (a.T.ravel(), (1, rows)) if by_columns else (a.ravel(), (depth, 1))
    row = frame.shape[1]
    flat = flat if flat.size else np.zeros(1, np.float32)
    run(flat, *strides, b.ravel(), frame.reshape(-1), row, rows, columns, depth, start is not None)
    return frame, inside


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 3 * ROWS),
    vectors=st.integers(1, 5),
    depth=st.integers(0, 40),
    by_columns=st.booleans(),
    accumulate=st.booleans(),
)
def test_it_is_the_product_and_touches_nothing_else(rows, vectors, depth, by_columns, accumulate):
    generator = np.random.default_rng(rows + 100 * depth)
    a = generator.standard_normal((rows, depth), dtype=np.float32)
    b = generator.standard_normal((depth, vectors * LANES), dtype=np.float32)
    start = generator.standard_normal((rows, vectors * LANES), dtype=np.float32)
    frame, inside = product(a, b, by_columns=by_columns, start=start if accumulate else None)
    expected = a.astype(float) @ b + (start if accumulate else 0)
    np.testing.assert_allclose(inside, expected, rtol=1e-5, atol=1e-5)
    inside[:] = SENTINEL
    assert (frame == SENTINEL).all()


def test_a_row_has_the_same_bits_alone_and_among_others(normal):
    a, b = normal(2 * ROWS + 3, 50), normal(50, COLUMNS + LANES)
    _, together = product(a, b)
    for i in (0, ROWS - 1, ROWS, 2 * ROWS + 2):
        _, alone = product(a[i : i + 1], b)
        assert alone.tobytes() == together[i].tobytes()


def test_going_on_from_a_part_of_the_depth_gives_the_bits_of_the_whole(normal):
    a, b = normal(ROWS + 1, 60), normal(60, COLUMNS)
    _, first = product(a[:, :23].copy(), b[:23])
    _, both = product(a[:, 23:].copy(), b[23:], start=first)
    _, whole = product(a, b)
    assert both.tobytes() == whole.tobytes()


def test_scratch_starts_at_a_cache_line():
    for size in (1, 17, 4096):
        memory = scratch(size)
        assert memory.size == size
        assert memory.ctypes.data % 64 == 0
