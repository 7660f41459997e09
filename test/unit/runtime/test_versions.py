"""Versions by which entries on disk are named: of polyc by its files, of others by metadata."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from polyc.runtime import versions
from polyc.runtime.installed import installed


@pytest.mark.parametrize("name", ["xdsl", "islpy", "numpy", "nvidia-cuda-nvrtc", "ml_dtypes"])
def test_what_is_installed_has_the_version_of_its_metadata(name: str):
    assert installed(name) == metadata.version(name)
    assert installed("no-such-package") is None


def digest(root: Path) -> str:
    versions.source_digest.cache_clear()
    return versions.source_digest(root)


def test_the_digest_is_of_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "polyc"
    (root / "passes" / "test").mkdir(parents=True)
    (root / "test").mkdir()
    one = root / "passes" / "one.py"
    one.write_text("a = 1\n")
    first = digest(root)
    os.utime(one, (1, 1))
    (root / "test" / "two.py").write_text("no part of what compiles")
    (root / "notes.md").write_text("nor this")
    assert digest(root) == first
    one.write_text("a = 2\n")
    changed = digest(root)
    one.write_text("a = 1\n")
    assert changed != first == digest(root)
    (root / "passes" / "test" / "two.py").write_text("")
    assert digest(root) not in (first, changed)


def test_files_that_were_read_before_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "one.py").write_text("a = 1\n")
    first = digest(tmp_path)

    read: list[str] = []
    whole = Path.read_bytes

    def seen(path: Path) -> bytes:
        read.append(path.suffix)
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", seen)
    assert digest(tmp_path) == first and ".py" not in read


def test_everything_that_lowers_is_named():
    found = versions.versions()
    assert set(found) == {"polyc", "python", "nvrtc", "flags", "xdsl", "islpy", "numpy"}
    assert found["xdsl"] == metadata.version("xdsl") and len(found["polyc"]) == 64
