import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ops
from ops.attention.block import BLOCK_KV, BLOCK_Q
from tests.ops import reference


def drawn(batch, heads, kv_heads, queries, keys, size, seed=0):
    generator = np.random.default_rng(seed)
    shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)]
    return [generator.standard_normal((batch, n, s, size), dtype=np.float32) for n, s in shapes]


def both_ways(q, k, v, do, **options):
    o, lse = ops.flash_attention(q, k, v, return_lse=True, **options)
    return o, lse, *ops.flash_attention_backward(q, k, v, o, lse, do, **options)


def dense_both_ways(q, k, v, do, **options):
    return *reference.attention(q, k, v, **options), *reference.attention_backward(
        q, k, v, do, **options
    )


def close(got, expected, steepness=1.0):
    """Errors of sums of some hundred products of unit size; steep scores pass theirs on."""
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=5e-6 * max(1, steepness))


EDGES = sorted({block + i for block in (BLOCK_Q, BLOCK_KV) for i in (-1, 0, 1)})
lengths = st.one_of(st.integers(0, 70), st.sampled_from(EDGES))


@settings(max_examples=50, deadline=None)
@given(
    queries=lengths,
    keys=lengths,
    size=st.sampled_from([1, 3, 8, 16, 24, 32, 48]),
    heads=st.sampled_from([(1, 1), (2, 2), (2, 1)]),
    causal=st.booleans(),
)
@example(queries=BLOCK_Q, keys=BLOCK_KV, size=32, heads=(2, 2), causal=True)
@example(queries=BLOCK_Q + 1, keys=2 * BLOCK_KV + 9, size=64, heads=(1, 1), causal=True)
@example(queries=2 * BLOCK_Q + 9, keys=BLOCK_KV + 1, size=128, heads=(2, 1), causal=True)
@example(queries=1, keys=150, size=80, heads=(6, 2), causal=True)
@example(queries=5, keys=0, size=8, heads=(1, 1), causal=False)
def test_it_is_dense_attention_forward_and_backward(queries, keys, size, heads, causal):
    arrays = drawn(1, *heads, queries, keys, size, seed=queries + 1000 * keys)
    close(both_ways(*arrays, causal=causal), dense_both_ways(*arrays, causal=causal))


def test_gradients_are_those_of_the_formula():
    q, k, v, do = drawn(1, 2, 1, 4, 5, 3)
    got = both_ways(q, k, v, do, causal=True)[2:]
    for index, gradient in enumerate(got):

        def formula(x, index=index):
            arrays = [q, k, v]
            arrays[index] = x
            return reference.attention(*arrays, causal=True)[0]

        expected = reference.difference_gradient(formula, (q, k, v)[index], do)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=2e-6)


def test_causal_aligns_the_last_query_with_the_last_key():
    q, k = np.zeros((1, 1, 3, 8), np.float32), np.zeros((1, 1, 5, 8), np.float32)
    v = np.broadcast_to(np.arange(1, 6, dtype=np.float32)[:, None], (1, 1, 5, 8)).copy()
    o, lse = ops.flash_attention(q, k, v, causal=True, return_lse=True)
    np.testing.assert_allclose(o[0, 0, :, 0], [2, 2.5, 3], rtol=1e-6)
    np.testing.assert_allclose(lse[0, 0], np.log([3, 4, 5]), rtol=1e-6)


def test_a_query_without_keys_gives_zero_and_takes_no_part_in_gradients():
    q, k, v, do = drawn(1, 1, 1, 70, 20, 16)
    o, lse, dq, dk, dv = both_ways(q, k, v, do, causal=True)
    assert (o[:, :, :50] == 0).all()
    assert (lse[:, :, :50] == -np.inf).all()
    assert (dq[:, :, :50] == 0).all()
    do[:, :, :50] = np.nan
    q[:, :, :50] = np.inf
    again = both_ways(q, k, v, do, causal=True)
    np.testing.assert_array_equal(again[3], dk)
    np.testing.assert_array_equal(again[4], dv)


def test_a_query_whose_scores_are_all_minus_infinity_gives_zero_as_one_without_keys():
    q, k, v, do = drawn(1, 1, 1, 4, 70, 16)
    k[..., 0] = -np.inf
    o, lse, _, _, dv = both_ways(np.abs(q), k, v, do)
    assert (o == 0).all()
    assert (lse == -np.inf).all()
    assert (dv == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 5, 7, 8, 21, BLOCK_KV - 1, BLOCK_KV, BLOCK_KV + 5])
def test_what_the_mask_hides_does_not_leak(bad, where):
    arrays = drawn(1, 1, 1, BLOCK_Q + 6, BLOCK_Q + 6, 16)
    clean = both_ways(*arrays, causal=True)
    for spoiled in (1, 2):  # keys, values: hidden from the queries before
        changed = [x.copy() for x in arrays]
        changed[spoiled][:, :, where] = bad
        o, lse, dq, _, _ = both_ways(*changed, causal=True)
        np.testing.assert_array_equal(o[:, :, :where], clean[0][:, :, :where])
        np.testing.assert_array_equal(lse[:, :, :where], clean[1][:, :, :where])
        np.testing.assert_array_equal(dq[:, :, :where], clean[2][:, :, :where])
    for spoiled in (0, 3):  # queries, their gradients: unseen by the keys after
        changed = [x.copy() for x in arrays]
        changed[spoiled][:, :, where] = bad
        _, _, _, dk, dv = both_ways(*changed, causal=True)
        np.testing.assert_array_equal(dk[:, :, where + 1 :], clean[3][:, :, where + 1 :])
        np.testing.assert_array_equal(dv[:, :, where + 1 :], clean[4][:, :, where + 1 :])


def test_nan_that_is_seen_shows():
    q, k, v, _ = drawn(1, 1, 1, 70, 70, 16)
    k[:, :, 10, 3] = np.nan
    o, lse = ops.flash_attention(q, k, v, causal=True, return_lse=True)
    assert np.isnan(o[:, :, 10:]).all()
    assert np.isnan(lse[:, :, 10:]).all()
    q, k, v, _ = drawn(1, 1, 1, 70, 70, 16)
    v[:, :, 10, 3] = np.inf
    o = ops.flash_attention(q, k, v, causal=True)
    assert (~np.isfinite(o[:, :, 10:, 3])).all()
    assert np.isfinite(np.delete(o, 3, axis=3)).all()


def test_large_scores_neither_overflow_nor_vanish():
    q = np.full((1, 1, 3, 64), 40, np.float32)
    k = np.stack([np.full((1, 1, 64), sign * 40, np.float32) for sign in (1, -1)], axis=2)
    v = drawn(1, 1, 1, 3, 2, 64)[2]
    o, lse = ops.flash_attention(q, k, v, return_lse=True)
    np.testing.assert_array_equal(o, np.broadcast_to(v[:, :, :1], o.shape))
    np.testing.assert_allclose(lse, 12800, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -0.7, 1.0, 3.0])
def test_any_scale_works_also_none_and_a_negative_one(scale):
    arrays = drawn(1, 2, 2, 20, 90, 16)
    steepness = abs(scale) * 4  # against 1 / sqrt(16)
    close(both_ways(*arrays, scale=scale), dense_both_ways(*arrays, scale=scale), steepness)


def test_a_long_row_of_equal_scores_is_the_mean_of_the_values():
    q, k, v, _ = drawn(1, 1, 1, 2, 3000, 8)
    o = ops.flash_attention(0 * q, k, v)
    np.testing.assert_allclose(o[0, 0, 1], v[0, 0].mean(axis=0, dtype=float), atol=1e-6)


def test_the_two_layouts_give_the_same_bits():
    arrays = drawn(2, 4, 2, 33, 70, 24)
    by_head = both_ways(*arrays, causal=True)
    swapped = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in arrays]
    by_row = both_ways(*swapped, causal=True, layout="BSND")
    for index, (a, b) in enumerate(zip(by_head, by_row, strict=True)):
        b = b if index == 1 else b.swapaxes(1, 2)
        np.testing.assert_array_equal(a, b)


def test_a_query_has_the_same_bits_alone_and_in_its_sequence():
    q, k, v, _ = drawn(1, 2, 2, BLOCK_Q + 2, 300, 32)
    whole = ops.flash_attention(q, k, v)
    for i in (0, BLOCK_Q - 1, BLOCK_Q, BLOCK_Q + 1):
        alone = ops.flash_attention(q[:, :, i : i + 1].copy(), k, v)
        assert alone.tobytes() == whole[:, :, i].tobytes()


def test_heads_and_sequences_do_not_know_of_each_other():
    arrays = drawn(3, 4, 2, 40, 40, 16)
    whole = both_ways(*arrays, causal=True)
    q, k, v, do = arrays
    last = [q[1:2, 2:].copy(), k[1:2, 1:].copy(), v[1:2, 1:].copy(), do[1:2, 2:].copy()]
    part = both_ways(*last, causal=True)
    for index, (a, b) in enumerate(zip(whole, part, strict=True)):
        first = 1 if index >= 3 else 2
        np.testing.assert_array_equal(a[1:2, first:], b)


def test_inputs_are_not_changed():
    arrays = drawn(1, 2, 1, 30, 30, 12)
    copies = [x.copy() for x in arrays]
    both_ways(*arrays, causal=True)
    for x, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(x, copy)


def test_an_unknown_layout_is_refused_by_name():
    q, k, v, _ = drawn(1, 1, 1, 2, 2, 8)
    with pytest.raises(ValueError, match="layout must be one of BNSD, BSND, but is 'SBH'"):
        ops.flash_attention(q, k, v, layout="SBH")


def test_heads_that_do_not_share_evenly_are_refused():
    q, k, v, _ = drawn(1, 3, 2, 2, 2, 8)
    with pytest.raises(ValueError, match="multiple of those of k, but they are 3 and 2"):
        ops.flash_attention(q, k, v)


def test_keys_of_another_batch_or_head_size_are_refused():
    q, k, v, _ = drawn(2, 1, 1, 2, 2, 8)
    with pytest.raises(ValueError, match=r"k must have shape \(2, any, any, 8\), but has"):
        ops.flash_attention(q, k[:1].copy(), v)
    with pytest.raises(ValueError, match=r"v must have shape \(2, 1, 2, 8\), but has"):
        ops.flash_attention(q, k, v[..., :4].copy())
