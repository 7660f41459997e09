"""README.md says what is so: its commands are run and its texts compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polyc.passes.pipeline import ABOVE_GPU, GPU_PASSES
from polyc.test.support.doc_pages import blocks, check_shown, is_excerpt
from polyc.test.support.root import ROOT

README = (ROOT / "README.md").read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory but for the examples and the files that the README shows."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, text in blocks(README, "file"):
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "shown"), blocks(README, "shows"))
def test_shown_output_is_what_the_command_prints(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, shown: str
):
    check_shown(command, shown, capsys)


def test_every_layer_is_shown():
    shown = " ".join(command for command, _ in blocks(README, "shows"))
    for name in ("cat examples", "tiny-to-index", "plan-select", "region-to-gpu", "-t cuda"):
        assert name in shown
    assert README.count("<!-- ") == len(blocks(README, "shows")) + len(blocks(README, "file"))


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
    first, *_, last = GPU_PASSES
    assert f"{first} … {last}\n" in README
    for name in ABOVE_GPU:
        assert f"  {name}" in README or f", {name}" in README
