"""Pages of the documentation whose commands are run and whose texts are compared.

A block under `<!-- file: NAME -->` is written to that file.  A block under
`<!-- shows: COMMAND -->` is an excerpt of what the command prints: its lines follow each
other in the output, `…` standing for what is left out; times and sizes may differ.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from polyc.tools import polyc, polyc_opt

BLOCK = re.compile(r"<!-- (file|shows): ([^\n]*) -->\n```\w*\n(.*?)\n```\n", re.DOTALL)
VARIES = re.compile(
    r" +\d+ ms\b|\b\S+ thread-ops/s|\b\d+ bytes\b|\b\d+ KiB\b|\b\d\.\de[-+]\d\d\b"
    "|, from the cache|  from the cache"
)


def blocks(page: str, kind: str) -> list[tuple[str, str]]:
    """The file's name or the command, and the text, of each block of a kind."""
    return [(m[2], m[3]) for m in BLOCK.finditer(page) if m[1] == kind]


def steady(text: str) -> list[str]:
    """The lines without what differs from run to run, and without indentation.

    A step that takes longer than a second has a line of its own before, which ends in `…`.
    """
    lines = [VARIES.sub(" _", line).replace(" _ _", " _").strip() for line in text.splitlines()]
    return [line for line in lines if not line.endswith("  …")]


def is_excerpt(excerpt: list[str], output: list[str]) -> bool:
    """Whether the lines of ``excerpt`` are in ``output`` in order, gaps only at `…`."""
    parts = [re.escape(line).replace("…", ".*") for line in excerpt]
    pattern = "".join("(?:.*\n)*?" if part == ".*" else part + "\n" for part in parts)
    return re.search("^" + pattern, "\n".join(output) + "\n", re.MULTILINE) is not None


def run(command: str) -> int:
    """Run a command of a page in this process."""
    name, *args = shlex.split(command)
    match name:
        case "polyc":
            return polyc.main(args)
        case "polyc-opt":
            return polyc_opt.main(args)
        case _:
            assert name == "cat", command
            print(Path(args[0]).read_text())
            return 0


def check_shown(command: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run ``command``; fail unless it prints ``shown``, and ends with 1 where that is an error."""
    first, _, rest = shown.partition("\n")
    if first.startswith("$ "):
        assert first[2:] == command
        shown = rest
    code = run(command)
    captured = capsys.readouterr()
    output = captured.out + captured.err
    assert code == (1 if "error[" in shown else 0), captured.err
    assert is_excerpt(steady(shown), steady(output)), output
