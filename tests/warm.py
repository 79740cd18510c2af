"""Compile the kernels once before the tests, saying how far it is.

A short training run on two emulated NPUs calls nearly all of them; what tests add compiles as
they come to it.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hcom.jit import cache_folder  # noqa: E402 - found beside this folder, installed or not

CONFIG = """
tensor_parallel: {size: 1}
sequence_parallel: {size: 1, method: ulysses}
pipeline: {stages: 2, micro_batch: 2, schedule: 1f1b}
data_parallel: {size: 1}
expert_parallel: {size: 1}
model: {layers: 2, hidden: 32, heads: 2, sequence: 32, vocab: 256}
training: {steps: 1, batch: 2, learning_rate: 1.0e-3, seed: 0, precision: fp32}
"""


def main():
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hcom-warm-") as name:
        config = Path(name, "config.yaml")
        config.write_text(CONFIG)
        program = [ROOT / "examples/train_gpt.py", "--config", config, "--verify", "1", "--quiet"]
        command = [sys.executable, "-m", "launch.run", "-n", "2", *program, "--run-dir", name]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            print(
                f"-- kernels compiled: {compiled()} ({time.monotonic() - began:.0f} s)", flush=True
            )
    return process.returncode


def compiled():
    return len(list(cache_folder().rglob("*.nbc")))


if __name__ == "__main__":
    sys.exit(main())
