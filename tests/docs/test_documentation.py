"""The documentation: its examples print what they say, and what it names exists.

A `python` block runs, and prints the `text` block below it; one that starts with `# file: NAME` is
written to that file instead. In a `console` block each `$ command` prints the lines below it. A
`bash` block ends with status 0. A comment `<!-- not run: reason -->` above a block leaves it out.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/architecture.md")
FENCE = re.compile(r"(<!-- not run: .+? -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    left_out: bool
    language: str
    text: str


def blocks(page):
    text = (ROOT / page).read_text()
    return [Block(bool(match[1]), match[2], match[3]) for match in FENCE.finditer(text)]


@pytest.fixture
def shell(tmp_path):
    """Run a command in an empty folder, with the project's commands on PATH; give its output."""
    for name, module in (("hcom-run", "launch.run"), ("hcom-tool", "launch.tool")):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(command):
        done = subprocess.run(
            command,
            shell=isinstance(command, str),
            env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_they_say(page, shell, tmp_path):
    found = [block for block in blocks(page) if not block.left_out]
    for block, following in zip(found, [*found[1:], None], strict=False):
        if block.language == "python":
            run_python(block, following, shell, tmp_path)
        elif block.language == "console":
            for command, output in transcript(block.text):
                assert shell(command) == output
        elif block.language == "bash":
            shell(block.text)


def run_python(block, following, shell, folder):
    if name := re.match(r"# file: (\S+)\n", block.text):
        (folder / name[1]).write_text(block.text)
        return
    output = shell([sys.executable, "-c", block.text])
    assert following is not None
    assert following.language == "text", "the output belongs below the example"
    assert output == following.text


def transcript(text):
    """Split a console block into commands and their outputs."""
    for part in text.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def test_the_readme_has_an_example_of_each_kind():
    ran = {block.language for block in blocks("README.md") if not block.left_out}
    assert {"python", "text", "console"} <= ran


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_inside_the_project_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / page).read_text())
    missing = [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]
    assert links
    assert missing == []


def test_every_package_has_a_room_in_the_architecture():
    text = (ROOT / "docs/architecture.md").read_text()
    packages = {
        path.parent.relative_to(ROOT).as_posix()
        for name in ("hcom", "ops", "parallel", "launch")
        for path in (ROOT / name).rglob("__init__.py")
    }
    assert [package for package in sorted(packages) if f"`{package}" not in text] == []


def test_what_the_architecture_names_as_a_file_exists():
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:hcom|ops|parallel|launch|tests)/[\w/.]+)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
