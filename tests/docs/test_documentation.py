"""The documentation: its examples print what they say, and what it names exists."""

import re

import pytest
from page_examples import ROOT, blocks, run_examples

PAGES = ("README.md", "CONTRIBUTING.md", "docs/architecture.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_they_say(page, shell, tmp_path):
    run_examples((ROOT / page).read_text(), shell, tmp_path)


def test_the_readme_has_an_example_of_each_kind():
    ran = {
        block.language for block in blocks((ROOT / "README.md").read_text()) if not block.left_out
    }
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
