import numpy as np
import pytest

import ops


def test_each_token_brings_its_row(normal):
    table, tokens = normal(10, 6), np.array([3, 0, 9, 3])
    np.testing.assert_array_equal(ops.embedding(tokens, table), table[[3, 0, 9, 3]])


def test_gradients_of_one_token_sum_up_in_the_order_of_the_tokens(normal):
    tokens, dx = np.array([2, 1, 2, 2, 4]), normal(5, 37)
    expected = np.zeros((6, 37), np.float32)
    for token, row in zip(tokens, dx, strict=True):
        expected[token] += row
    np.testing.assert_array_equal(ops.embedding_backward(tokens, dx, rows=6), expected)


def test_the_gradient_is_added_into_out(normal):
    tokens, dx, out = np.array([1, 0, 1]), normal(3, 5), normal(2, 5)
    expected = out.copy()
    for token, row in zip(tokens, dx, strict=True):
        expected[token] += row
    assert ops.embedding_backward(tokens, dx, rows=2, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("token", [-1, 10, 2**40])
def test_a_token_outside_the_table_is_refused_by_place_and_value(normal, token):
    tokens = np.array([1, 2, token, 3])
    message = rf"tokens_T\[2\] must be in \[0, 10\), but is {token}"
    with pytest.raises(ValueError, match=message):
        ops.embedding(tokens, normal(10, 4))
    with pytest.raises(ValueError, match=message):
        ops.embedding_backward(tokens, normal(4, 4), rows=10)


def test_tokens_of_another_type_are_refused(normal):
    with pytest.raises(TypeError, match="tokens_T must be a int64 array, but is int32"):
        ops.embedding(np.array([1], np.int32), normal(10, 4))
