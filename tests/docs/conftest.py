"""A shell for the examples of the documentation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("page_examples")

from page_examples import ROOT  # noqa: E402 - its assertions are to say what came


@pytest.fixture
def shell(tmp_path):
    """Run a command in an empty folder, with the project's commands on PATH; give its output."""
    for name, module in (("hcom-run", "launch.run"), ("hcom-tool", "launch.tool")):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(command, given=""):
        done = subprocess.run(
            command,
            shell=isinstance(command, str),
            env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
