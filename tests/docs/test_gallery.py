"""The gallery: the committed page and pictures are what its script makes, and none is missing."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hcom.algorithms import TABLE, build

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "gallery.md").read_text()
STALE = "the gallery is not what its script makes: run `make gallery`"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    script = [sys.executable, DOCS / "make_gallery.py", folder]
    subprocess.run(script, env={"PYTHONPATH": str(ROOT)}, check=True, timeout=60)
    return folder


def test_the_page_is_what_the_script_makes(made):
    assert (made / "gallery.md").read_text() == PAGE, STALE


def test_the_pictures_are_what_the_script_draws(made):
    fresh, kept = (
        {path.name: path.read_text() for path in (folder / "gallery").iterdir()}
        for folder in (made, DOCS)
    )
    assert fresh.keys() == kept.keys(), STALE
    assert [name for name in fresh if fresh[name] != kept[name]] == [], STALE


def test_every_algorithm_of_the_table_has_a_row_and_a_picture():
    rows = re.findall(r"^## (\w+)$|^\| (\w+) \| (\d+) \|.*src=\"(\S+)\"", PAGE, re.MULTILINE)
    found, collective = {}, ""
    for heading, algorithm, steps, picture in rows:
        collective = heading or collective
        if algorithm:
            found[collective, algorithm] = (int(steps), picture)
    assert found.keys() == TABLE.keys()
    for (collective, algorithm), (steps, picture) in found.items():
        svg = ElementTree.parse(DOCS / picture).getroot()
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert texts[0].startswith(f"{collective} ranks=8 ")
        assert texts[0].endswith(f"name={algorithm}")
        assert steps == len(build(collective, algorithm, 8).rounds)


def test_the_pictures_stay_small():
    sizes = [path.stat().st_size for path in (DOCS / "gallery").iterdir()]
    assert sum(sizes) < 1_500_000
    assert max(sizes) < 40_000
