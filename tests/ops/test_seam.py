import pytest

import ops
from tests.ops.reference import kept


@pytest.fixture
def costs(device, monkeypatch):
    """What operators state: (name, flops, bytes)."""
    stated, launch = [], device.launch

    def noting(name, flops, nbytes, **options):
        stated.append((name, flops, nbytes))
        launch(name, flops, nbytes, **options)

    monkeypatch.setattr(device, "launch", noting)
    return stated


def test_another_type_is_refused_with_what_was_expected_and_what_came(normal):
    with pytest.raises(TypeError) as refused:
        ops.linear(normal(3, 4).astype(float), normal(4, 5))
    assert str(refused.value) == (
        "linear: x_TD must be a float32 array, but is float64 of shape (3, 4)"
    )


def test_what_is_no_array_is_refused(normal):
    with pytest.raises(TypeError, match="linear: w_DF must be a float32 array, but is list"):
        ops.linear(normal(3, 4), [[1.0]])


def test_another_shape_is_refused_with_both_shapes(normal):
    with pytest.raises(ValueError, match=r"w_DF must have shape \(4, any\), but has \(5, 4\)"):
        ops.linear(normal(3, 4), normal(5, 4))
    with pytest.raises(ValueError, match=r"gamma_D must have shape \(4\), but has \(4, 1\)"):
        ops.rms_norm(normal(3, 4), normal(4, 1))


def test_a_strided_view_is_refused_and_the_remedy_is_named(normal):
    with pytest.raises(ValueError, match=r"w_DF must be C-contiguous.*ascontiguousarray"):
        ops.linear(normal(3, 4), normal(5, 4).T)


def test_a_read_only_out_is_refused(normal):
    out = normal(4, 5)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="linear_backward_weight: out must be writeable"):
        ops.linear_backward_weight(normal(3, 4), normal(3, 5), out=out)


def test_a_refused_call_takes_no_memory_and_no_time(device, normal):
    with pytest.raises(ValueError, match="out must have shape"):
        ops.linear_backward_weight(normal(3, 4), normal(3, 5), out=normal(5, 4))
    assert device.memory.peak_bytes == 0
    assert device.compute_time == 0


def test_outputs_come_from_the_devices_memory(device, normal):
    y = ops.linear(normal(8, 4), normal(4, 16))
    assert device.memory.live_bytes == y.nbytes


def test_a_product_states_its_flops_and_the_least_traffic(costs, normal):
    x, w, dy = normal(40, 16), normal(16, 24), normal(40, 24)
    ops.linear(x, w)
    ops.linear_backward_input(dy, w)
    ops.linear_backward_weight(x, dy)
    assert [flops for _, flops, _ in costs] == [2 * 40 * 16 * 24] * 3
    assert [nbytes for _, _, nbytes in costs] == [x.nbytes + w.nbytes + dy.nbytes] * 3


def test_an_operator_moves_the_device_clock_by_its_cost(device, costs, normal):
    ops.linear(normal(40, 16), normal(16, 24))
    ((_, flops, nbytes),) = costs
    profile = device.profile
    work = max(flops / profile.peak("float32"), nbytes / profile.bandwidth)
    assert device.compute_time == pytest.approx(profile.launch + work, rel=1e-12)


def test_an_operator_leaves_an_event_of_its_name(device, normal):
    ops.swiglu(normal(2, 8))
    (event,) = device.trace.events()
    assert (event.name, event.stream, event.nbytes) == ("swiglu", "compute", 3 * 2 * 4 * 4)


def test_nothing_is_launched_for_empty_arrays(device, normal):
    assert ops.linear(normal(0, 4), normal(4, 5)).shape == (0, 5)
    assert ops.swiglu(normal(0, 8)).shape == (0, 4)
    assert ops.flash_attention(normal(1, 2, 0, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8)).size == 0
    assert device.compute_time == 0


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (7, 3), (1, 4), (6, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_counts_the_pairs_that_are_kept(costs, normal, queries, keys, causal):
    q, k = normal(2, 3, queries, 8), normal(2, 3, keys, 8)
    o, lse = ops.flash_attention(q, k, k, causal=causal, return_lse=True)
    ops.flash_attention_backward(q, k, k, o, lse, o, causal=causal)
    flops = 4 * 2 * 3 * int(kept(queries, keys, causal).sum()) * 8
    forward = 2 * q.nbytes + 2 * k.nbytes + lse.nbytes
    backward = 4 * q.nbytes + 4 * k.nbytes + lse.nbytes
    assert [cost[1:] for cost in costs] == [(flops, forward), (2.5 * flops, backward)]
