import json

import pytest

from parallel.metrics import Metrics, read_records


def step(number, **other):
    record = {"event": "step", "step": number, "loss": 10.0 / number}
    return {**record, "tokens_per_s": 100.0, "wall_s": 2.0, **other}


def test_each_record_is_a_line_of_json(tmp_path):
    metrics = Metrics(tmp_path / "m", [step(1)])
    metrics.write(step(2))
    lines = (tmp_path / "m").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [step(1), step(2)]


def test_what_a_killed_run_left_is_read_up_to_the_checkpoint(tmp_path):
    metrics = Metrics(tmp_path / "m", [])
    for record in (step(1), step(2), step(3), {"event": "summary", "step": 3}):
        metrics.write(record)
    with (tmp_path / "m").open("a") as file:
        file.write('{"event": "st')
    assert read_records(tmp_path / "m", 2) == [step(1), step(2)]
    assert read_records(tmp_path / "m", 9) == [step(1), step(2), step(3)]
    assert read_records(tmp_path / "none", 9) == []


def test_the_speed_leaves_out_the_first_step():
    slow = step(1, tokens_per_s=1.0, wall_s=200.0)
    fast = [step(2, tokens_per_s=300.0, wall_s=1.0), step(3, tokens_per_s=100.0, wall_s=3.0)]
    assert Metrics(None, [slow, *fast]).speed() == pytest.approx((300 + 300) / 4)
    assert Metrics(None, [slow]).speed() == pytest.approx(1.0)


def test_a_mean_is_over_all_or_the_last_steps():
    metrics = Metrics(None, [step(1), step(2), step(5)])
    assert metrics.mean("loss") == pytest.approx((10 + 5 + 2) / 3)
    assert metrics.mean("loss", 2) == pytest.approx((5 + 2) / 2)
