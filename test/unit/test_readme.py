"""README.md says what is so: its commands are run and its texts compared.

A block under `<!-- file: NAME -->` is written to that file.  A block under
`<!-- shows: COMMAND -->` is an excerpt of what the command prints: its lines follow each
other in the output, `…` standing for what is left out; times and sizes may differ.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyc.passes.lower_to_gpu import BORDERS, gpu_passes
from polyc.tools import polyc, polyc_opt

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"<!-- (file|shows): ([^\n]*) -->\n```\w*\n(.*?)\n```\n", re.DOTALL)
VARIES = re.compile(
    r" +\d+ ms\b|\b\S+ thread-ops/s|\b\d+ bytes\b|\b\d+ KiB\b|\b\d\.\de[-+]\d\d\b|\b\d+ passes"
    "|, from the cache|  from the cache"
)


def steady(text: str) -> list[str]:
    """The lines without what differs from run to run, and without indentation.

    A step that takes longer than a second has a line of its own before, which ends in `…`.
    """
    lines = [VARIES.sub(" _", line).replace(" _ _", " _").strip() for line in text.splitlines()]
    return [line for line in lines if not line.endswith("  …")]


def blocks(kind: str) -> Iterator[tuple[str, str]]:
    return ((m[2], m[3]) for m in BLOCK.finditer(README) if m[1] == kind)


def is_excerpt(excerpt: list[str], output: list[str]) -> bool:
    """Whether the lines of ``excerpt`` are in ``output`` in order, gaps only at `…`."""
    parts = [re.escape(line).replace("…", ".*") for line in excerpt]
    pattern = "".join("(?:.*\n)*?" if part == ".*" else part + "\n" for part in parts)
    return re.search("^" + pattern, "\n".join(output) + "\n", re.MULTILINE) is not None


def run(command: str) -> int:
    """Run a command of the README in this process."""
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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the examples and the files that the README shows."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "out").mkdir()
    for name, text in blocks("file"):
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "shown"), list(blocks("shows")))
def test_shown_output_is_what_the_command_prints(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, shown: str
):
    first, _, rest = shown.partition("\n")
    if first.startswith("$ "):
        assert first[2:] == command
        shown = rest
    code = run(command)
    captured = capsys.readouterr()
    assert code == (1 if "error[" in shown else 0), captured.err
    assert is_excerpt(steady(shown), steady(captured.out + captured.err)), captured.out


def test_every_layer_is_shown():
    shown = " ".join(command for command, _ in blocks("shows"))
    for name in ("cat examples", "tiny-to-index", "plan-select", "region-to-gpu", "-t cuda"):
        assert name in shown
    assert README.count("<!-- ") == len(list(blocks("shows"))) + len(list(blocks("file")))


def test_an_excerpt_has_its_lines_in_order_and_gaps_only_where_it_says():
    output = ["a", "b", "c 1", "d"]
    assert is_excerpt(["a", "b"], output)
    assert is_excerpt(["b", "…", "d"], output)
    assert is_excerpt(["c …"], output)
    assert not is_excerpt(["a", "c 1"], output)
    assert not is_excerpt(["d", "…", "a"], output)
    assert not is_excerpt(["c"], output)


def test_links_and_rooms_are_there():
    for link in re.findall(r"\]\(([^):]+)\)", README):
        assert (ROOT / link).exists(), link
    for room in re.findall(r"^\| `(\w+)/` \|", README, re.MULTILINE):
        assert (ROOT / room).is_dir(), room


def test_passes_of_the_picture():
    first, *_, last = gpu_passes()
    assert f"{first} … {last}\n" in README
    for name in BORDERS:
        assert f"  {name}" in README or f", {name}" in README
