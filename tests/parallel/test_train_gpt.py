"""The example program as a user runs it, on one NPU and without a launcher."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import hcom
from hcom.errors import ConfigError
from parallel.data import bigram_entropy, corpus
from parallel.trainer import Options, Trainer
from tests.parallel.tiny import tiny_config

ROOT = Path(__file__).parents[2]
STEPS = 60

pytestmark = pytest.mark.timeout(300)  # where nothing is compiled yet


def command(folder, *arguments):
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(tiny_config(steps=STEPS).model_dump(exclude_none=True)))
    program = [sys.executable, str(ROOT / "examples/train_gpt.py"), "--config", str(config)]
    return [*program, "--checkpoint-every", "1", *map(str, arguments)]


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1"}


def run(folder, *arguments, status=0):
    ended = subprocess.run(
        command(folder, *arguments),
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == status, ended.stderr
    return ended


def records(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    ended = run(folder, "--run-dir", folder / "run", "--verify", 2)
    return folder / "run", ended.stdout


def test_a_run_leaves_its_metrics_with_a_summary_at_the_end(whole):
    run_dir, _ = whole
    *steps, summary = records(run_dir)
    assert [record["step"] for record in steps] == list(range(1, STEPS + 1))
    assert all(math.isfinite(record["loss"]) for record in steps)
    assert steps[0]["loss"] > steps[-1]["loss"] > 0
    assert summary["event"] == "summary"
    assert 0 < summary["val_loss"] < steps[0]["loss"]
    assert summary["bigram_entropy"] == pytest.approx(bigram_entropy(*corpus()))
    assert summary["verify_loss_rel"] == summary["verify_grad_rel"] == 0.0
    assert summary["bubble"] == pytest.approx(0.0, abs=1e-9)
    assert summary["tokens_per_s"] > 0
    device = [record["device_s"] for record in steps]
    assert summary["device_s_per_step"] == pytest.approx(sum(device) / STEPS)


def test_a_run_draws_its_last_steps_on_both_clocks(whole):
    run_dir, _ = whole
    for name in ("timeline.json", "timeline.wall.json"):
        events = json.loads((run_dir / name).read_text())["traceEvents"]
        steps = {event["args"]["step"] for event in events if event["ph"] == "X"}
        assert steps == {STEPS - 2, STEPS - 1, STEPS}


def test_a_run_says_how_it_went_and_where_everything_is(whole):
    run_dir, text = whole
    for part in ("add-one bigram model 2.3464", "beside one NPU", "pipeline bubble", "tokens/s"):
        assert part in text
    for name in ("metrics.jsonl", "timeline.json", "timeline.wall.json"):
        assert str(run_dir / name) in text
    assert str(run_dir / "checkpoints" / f"step-{STEPS:06d}") in text


def test_a_killed_run_goes_on_from_its_last_whole_checkpoint_bit_for_bit(whole, tmp_path):
    killed = subprocess.Popen(
        command(tmp_path, "--run-dir", tmp_path / "run"),
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run/checkpoints/step-000003").is_dir():
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.001)
    killed.kill()
    killed.wait()
    done = int((tmp_path / "run/checkpoints/latest").read_text().strip()[5:])
    assert 2 <= done < STEPS  # 2: killed between the two names

    run(tmp_path, "--resume", tmp_path / "run", "--quiet")
    last = f"checkpoints/step-{STEPS:06d}/rank-00000.ckpt"
    assert (tmp_path / "run" / last).read_bytes() == (whole[0] / last).read_bytes()
    one, other = records(tmp_path / "run"), records(whole[0])
    for key in ("step", "loss", "gradient_norm", "learning_rate"):
        assert [r[key] for r in one[:-1]] == [r[key] for r in other[:-1]]
    assert one[-1]["val_loss"] == other[-1]["val_loss"]


def test_bad_input_is_one_line_and_status_2(tmp_path):
    ended = run(tmp_path, "--steps", "many", status=2)
    assert ended.stdout == ""
    assert (
        ended.stderr
        == "error: argument --steps: invalid int value: 'many' (--help lists the options)\n"
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"steps": 0}, "--steps 0: must be 1 or more"),
        ({"verify": -1}, "--verify -1: must be 0 or more"),
        ({"checkpoint_every": -5}, "--checkpoint-every -5: must be 0 or more"),
        ({"stop_after": 0}, "--stop-after 0: must be 1 or more"),
        ({"timeline_steps": 0}, "--timeline-steps 0: must be 1 or more"),
    ],
)
def test_numbers_that_mean_nothing_are_refused_by_their_option(options, problem):
    with pytest.raises(ConfigError, match=f"^{problem}$"):
        Trainer(tiny_config(), Options(**options))


def test_the_directory_of_another_run_is_refused_and_nothing_in_it_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(hcom, "rank", lambda: 0)
    (tmp_path / "metrics.jsonl").write_text("kept")
    with pytest.raises(ConfigError, match=r"holds the files of another run.*--resume"):
        Trainer(tiny_config(), Options(run_dir=tmp_path))
    assert (tmp_path / "metrics.jsonl").read_text() == "kept"


def test_a_run_directory_that_cannot_be_made_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(hcom, "rank", lambda: 0)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--run-dir .*file/run: Not a directory"):
        Trainer(tiny_config(), Options(run_dir=tmp_path / "file/run"))


def test_a_resumed_run_cannot_prove_its_first_steps_nor_go_beyond_its_end(whole, monkeypatch):
    monkeypatch.setattr(hcom, "rank", lambda: 0)
    config, checkpoint = tiny_config(steps=STEPS), whole[0] / "checkpoints/step-000005"
    with pytest.raises(ConfigError, match="goes on after step 5; leave out --verify or --resume"):
        Trainer(config, Options(resume=checkpoint, verify=3))
    with pytest.raises(ConfigError, match="it is of step 5 and this run ends with step 4"):
        Trainer(config, Options(resume=checkpoint, stop_after=4))
    Trainer(config, Options(resume=checkpoint, stop_after=6))
