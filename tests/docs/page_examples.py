"""The code blocks of a page: found, run, and their output compared with what the page prints.

A `python` block runs, and prints the `text` block below it; one that starts with `# file: NAME` is
written to that file instead. In a `console` block each `$ command` prints the lines below it. A
`bash` block ends with status 0. A `diff` block changes the files that it names. A comment
`<!-- not run: reason -->` above a block leaves it out.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"(<!-- not run: .+? -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    left_out: bool
    language: str
    text: str


def blocks(text):
    return [Block(bool(match[1]), match[2], match[3]) for match in FENCE.finditer(text)]


def run_examples(text, shell, folder):
    """Run a page's blocks in a folder, from top to bottom."""
    found = [block for block in blocks(text) if not block.left_out]
    for block, following in zip(found, [*found[1:], None], strict=False):
        if block.language == "python":
            run_python(block, following, shell, folder)
        elif block.language == "console":
            for command, output in transcript(block.text):
                assert shell(command) == output
        elif block.language == "bash":
            shell(block.text)
        elif block.language == "diff":
            shell(["patch", "-p1"], block.text)


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
