import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ops
from ops.linear import COLUMN_BLOCK, DEPTH_BLOCK, ROW_BLOCK

sizes = st.integers(1, 70)


def drawn(*shapes):
    generator = np.random.default_rng(sum(map(sum, shapes)))
    return [generator.standard_normal(shape, dtype=np.float32) for shape in shapes]


def close(got, expected, depth):
    """A sum of `depth` products of unit size, each rounded once."""
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-7 * depth + 1e-6)


@settings(max_examples=40, deadline=None)
@given(tokens=sizes, depth=sizes, width=sizes)
@example(tokens=ROW_BLOCK + 1, depth=DEPTH_BLOCK + 3, width=COLUMN_BLOCK + 1)
@example(tokens=2, depth=2 * DEPTH_BLOCK, width=2 * COLUMN_BLOCK)
def test_all_three_products_are_right_for_any_sizes(tokens, depth, width):
    x, w, dy, b = drawn((tokens, depth), (depth, width), (tokens, width), (width,))
    close(ops.linear(x, w), x.astype(float) @ w, depth)
    close(ops.linear(x, w, b), x.astype(float) @ w + b, depth)
    close(ops.linear_backward_input(dy, w), dy.astype(float) @ w.T, width)
    close(ops.linear_backward_weight(x, dy), x.T.astype(float) @ dy, tokens)
    close(ops.bias_backward(dy), dy.astype(float).sum(axis=0), tokens)


def test_weight_and_bias_gradients_are_added_into_out(normal):
    x, dy, dw, db = normal(40, 19), normal(40, 21), normal(19, 21), normal(21)
    dw_before, db_before = dw.copy(), db.copy()
    assert ops.linear_backward_weight(x, dy, out=dw) is dw
    assert ops.bias_backward(dy, out=db) is db
    close(dw, dw_before + x.T.astype(float) @ dy, 40)
    close(db, db_before + dy.astype(float).sum(axis=0), 40)


def test_two_halves_of_the_tokens_add_up_to_the_bits_of_all(normal):
    x, dy = normal(64, 33), normal(64, 40)
    dw = ops.linear_backward_weight(x[:24], dy[:24])
    ops.linear_backward_weight(x[24:], dy[24:], out=dw)
    assert dw.tobytes() == ops.linear_backward_weight(x, dy).tobytes()


def test_a_token_has_the_same_bits_alone_and_among_others(normal):
    x, w = normal(ROW_BLOCK + 9, 48), normal(48, 50)
    together = ops.linear(x, w)
    for i in (0, 7, ROW_BLOCK, ROW_BLOCK + 8):
        assert ops.linear(x[i : i + 1], w).tobytes() == together[i].tobytes()


def test_no_depth_gives_zeros_or_the_bias(normal):
    b = normal(5)
    assert (ops.linear(normal(3, 0), normal(0, 5)) == 0).all()
    assert (ops.linear(normal(3, 0), normal(0, 5), b) == b).all()
    assert (ops.linear_backward_weight(normal(0, 4), normal(0, 5)) == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_stay_in_their_row(normal, bad):
    x, w = normal(20, 17), normal(17, 35)
    clean = ops.linear(x, w)
    x[6, 3] = bad
    y = ops.linear(x, w)
    assert not np.isfinite(y[6]).any()
    others = np.arange(20) != 6
    assert y[others].tobytes() == clean[others].tobytes()
