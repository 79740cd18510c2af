"""hcom-tool: its subcommands, and what `env` tells."""

import json
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from launch.threads import cores
from launch.tool import app

ROOT = Path(__file__).resolve().parents[2]


def call(*arguments, **variables):
    return CliRunner().invoke(app, list(arguments), env=variables)


def test_every_file_in_tools_is_a_subcommand():
    files = {path.stem for path in (ROOT / "launch/tools").glob("*.py")} - {"__init__"}
    shown = call("--help").stdout
    assert {"env", "schedule"} <= files
    assert all(name in shown for name in files)


def test_a_subcommand_that_does_not_exist_is_a_usage_error():
    assert call("nonsense").exit_code == 2


def test_env_tells_where_each_package_was_loaded_from():
    record = json.loads(call("env", "--json").stdout)
    for name in ("hcom", "ops", "parallel", "launch"):
        assert record[name] == str(ROOT / name)


def test_env_tells_versions_cores_and_the_mpi():
    record = json.loads(call("env", "--json").stdout)
    assert record["numpy"] == __import__("numpy").__version__
    assert record["cores"] == str(cores())
    assert record["MPI"]


def test_env_tells_the_limit_in_force_and_who_has_set_it():
    def told(**variables):
        return json.loads(call("env", "--json", **variables).stdout)["HCCL_EXEC_TIMEOUT"]

    assert told(HCCL_EXEC_TIMEOUT="") == "1836 s (default)"
    assert told(HCCL_EXEC_TIMEOUT="60") == "60 s (from the environment)"
    assert told(HCCL_EXEC_TIMEOUT="0") == "no limit"
    assert told(HCCL_EXEC_TIMEOUT="soon").startswith("EI0001: HCCL_EXEC_TIMEOUT='soon'")


def test_env_names_a_package_of_another_project_that_is_in_the_way(tmp_path):
    (tmp_path / "hcom").mkdir()
    (tmp_path / "hcom/__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "launch.tool", "env"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("hcom "))
    assert line.endswith(f"{tmp_path}/hcom - not this project's, which is in {ROOT}")
