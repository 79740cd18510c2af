import pytest

from hcom.device import Event
from parallel import bubble, pipeline
from parallel.layout import Layout


def traces(plan, layout, forward, backward, transfer=0.0, step=1):
    """Events as a run of the plan on exact clocks would leave them."""
    priced = pipeline.price(plan, forward, backward, transfer)
    events = {}
    for rank in range(layout.world_size):
        stage = layout.coordinates(rank)["pp"]
        events[rank] = [
            Event("phase", str(action), "phase", 0.0, 0.0, start, end, step=step)
            for action, start, end in priced.slots[stage]
        ]
    return events


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 4), (4, 4), (4, 8)])
def test_even_stages_and_free_messages_give_the_formula(stages, micro_batches):
    plan, layout = pipeline.build("1f1b", stages, micro_batches), Layout(pp=stages, sp=2)
    found = bubble.measure(traces(plan, layout, 1.0, 2.0), layout, plan)
    share = (stages - 1) / (micro_batches + stages - 1)
    assert found.measured == pytest.approx(share)
    assert found.formula == pytest.approx(share)
    assert found.uneven == pytest.approx(share)


def test_what_uneven_stages_cost_is_told_from_what_messages_cost():
    plan, layout = pipeline.build("1f1b", 2, 4), Layout(pp=2)
    found = bubble.measure(traces(plan, layout, [1.0, 1.5], 2.0, 0.25), layout, plan)
    assert found.forward == pytest.approx([1.0, 1.5])
    assert found.formula < found.uneven < found.measured
    assert found.uneven == pytest.approx(pipeline.price(plan, [1.0, 1.5], 2.0).bubble)
    assert "F 1.50, B 1.00" in found.explain()


def test_other_phases_and_events_outside_steps_do_not_count():
    plan, layout = pipeline.build("1f1b", 2, 2), Layout(pp=2)
    events = traces(plan, layout, 1.0, 2.0)
    plain = bubble.measure(events, layout, plan).measured
    for row in events.values():
        row.append(Event("phase", "reduce", "phase", 0, 0, 90.0, 99.0, step=1))
        row.append(Event("phase", "F0", "phase", 0, 0, 900.0, 999.0, step=-1))
        row.append(Event("compute", "F0", "op", 0, 0, 900.0, 999.0, step=1))
    assert bubble.measure(events, layout, plan).measured == plain
