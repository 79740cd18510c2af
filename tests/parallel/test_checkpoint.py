import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hcom.errors import ConfigError
from parallel import checkpoint
from parallel.group import OneRank

STATE = {"step": 3, "config": {"a": 1}, "records": [{"loss": 0.1 + 0.2}]}


class OneOf(OneRank):
    """Rank 0 of two; the other one never writes."""

    rank_size = 2


@pytest.fixture
def arrays():
    generator = np.random.default_rng(0)
    return {
        "value/a": generator.normal(size=(3, 5)).astype(np.float32),
        "m/b": generator.normal(size=7).astype(np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "tokens": np.arange(5),
    }


def test_what_is_read_is_what_was_written_to_the_bit(tmp_path, arrays):
    whole = checkpoint.save(tmp_path, 3, STATE, arrays, OneRank())
    state, read = checkpoint.load(whole, 0)
    assert state == STATE
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    assert checkpoint.load_state(whole, 0) == STATE


def test_arrays_lie_on_64_byte_borders_of_the_file(tmp_path):
    ones = np.full(3, 1.0, "<f4")
    whole = checkpoint.save(tmp_path, 1, {}, {"a": ones, "b": 2 * ones}, OneRank())
    content = checkpoint.rank_file(whole, 0).read_bytes()
    assert content.index((2 * ones).tobytes()) == content.index(ones.tobytes()) + 64
    assert content.index(ones.tobytes()) % 64 == 0


def test_the_newest_whole_checkpoint_is_found_by_run_directory_or_by_name(tmp_path, arrays):
    root = tmp_path / "checkpoints"
    first = checkpoint.save(root, 2, STATE, arrays, OneRank())
    second = checkpoint.save(root, 10, STATE, arrays, OneRank())
    assert (root / "latest").read_text() == "step-000010\n"
    assert checkpoint.find(tmp_path) == checkpoint.find(root) == second
    assert checkpoint.find(first) == first


def test_a_step_written_again_replaces_the_old_one(tmp_path, arrays):
    checkpoint.save(tmp_path, 2, STATE, arrays, OneRank())
    whole = checkpoint.save(tmp_path, 2, {"step": 99}, {}, OneRank())
    assert checkpoint.load(whole, 0) == ({"step": 99}, {})


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from parallel import checkpoint
from parallel.group import OneRank

root, point = Path(sys.argv[1]), sys.argv[2]
arrays = {"a": np.ones(1000, np.float32)}
checkpoint.save(root, 1, {"step": 1}, arrays, OneRank())

def die(*args, **kwargs):
    os._exit(9)

if point == "inside a file":
    os.fsync = die
elif point == "between files":
    class Two(OneRank):
        rank_size = 2
        waits = 0
        def barrier(self):
            self.waits += 1
            if self.waits == 2:  # own file is there, the other rank's is not
                die()
    checkpoint.save(root, 2, {"step": 2}, arrays, Two())
elif point == "before the directory's name":
    Path.rename = die
elif point == "before latest":
    checkpoint.os.replace = die
    replace = Path.replace
    Path.replace = lambda self, to: die() if self.name == "latest.tmp" else replace(self, to)
checkpoint.save(root, 2, {"step": 2}, arrays, OneRank())
"""


@pytest.mark.parametrize(
    ("point", "step"),
    [
        ("inside a file", 1),
        ("between files", 1),
        ("before the directory's name", 1),
        ("before latest", 1),
    ],
)
def test_a_run_killed_while_writing_leaves_a_whole_checkpoint(tmp_path, point, step):
    command = [sys.executable, "-c", KILLED, str(tmp_path), point]
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False
    )
    assert ended.returncode == 9
    if point == "inside a file":  # not on disk yet, so not by its name yet
        assert not checkpoint.rank_file(tmp_path / "step-000002.partial", 0).exists()
    whole = checkpoint.find(tmp_path)
    state, arrays = checkpoint.load(whole, 0)
    assert state == {"step": step}
    assert (arrays["a"] == 1.0).all()
    assert checkpoint.save(tmp_path, 2, {"step": 2}, {}, OneRank()) == checkpoint.find(tmp_path)


def test_a_directory_without_a_checkpoint_is_refused_in_one_line(tmp_path):
    (tmp_path / "step-000007.partial").mkdir()
    with pytest.raises(ConfigError, match="no whole checkpoint there") as caught:
        checkpoint.find(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0, 10, 30, 100, -1])
def test_a_file_cut_short_is_refused(tmp_path, arrays, kept):
    whole = checkpoint.save(tmp_path, 1, STATE, arrays, OneRank())
    path = checkpoint.rank_file(whole, 0)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"rank-00000.ckpt: .*(cut short|does not begin)"):
        checkpoint.load(whole, 0)


def test_a_flipped_bit_is_refused_by_the_name_of_its_array(tmp_path, arrays):
    whole = checkpoint.save(tmp_path, 1, STATE, arrays, OneRank())
    path = checkpoint.rank_file(whole, 0)
    content = bytearray(path.read_bytes())
    content[content.index(arrays["m/b"].tobytes()) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="m/b is cut short or has changed"):
        checkpoint.load(whole, 0)


def test_a_missing_rank_is_refused(tmp_path, arrays):
    whole = checkpoint.save(tmp_path, 1, STATE, arrays, OneRank())
    with pytest.raises(ConfigError, match=r"rank-00001\.ckpt: No such file"):
        checkpoint.load(whole, 1)
