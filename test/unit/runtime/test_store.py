"""The store: bounds, the user's own folder, damage, and processes that are killed at it."""

from __future__ import annotations

import os
import signal
import stat
import time
import warnings
from itertools import count
from pathlib import Path

import pytest

from polyc.runtime import store
from polyc.runtime.store import Store, entry_bytes, read_entry


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def test_what_is_saved_is_loaded(own: Store):
    own.save("a", {"log": "x\ny"}, b"\n\0image")
    found = own.load("a")
    assert found is not None and found[0]["log"] == "x\ny" and found[1] == b"\n\0image"
    assert own.load("b") is None
    assert stat.S_IMODE(own.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((own.folder / "a").stat().st_mode) == 0o600


def test_a_damaged_or_foreign_entry_is_refused_with_a_warning(own: Store):
    own.save("a", {}, b"image")
    path = own.folder / "a"
    (own.folder / "b").write_bytes(path.read_bytes())
    with pytest.warns(RuntimeWarning, match="was written as 'a'; it is not used"):
        assert own.load("b") is None
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert own.load("a") is None
    assert set(own.verify()) == {"a", "b"} and own.entries() == []
    assert isinstance(read_entry(entry_bytes("c", {}, b"")[:-2], "c"), str)


def test_others_rights_on_the_folder_go_and_others_folders_are_not_used(
    own: Store, monkeypatch: pytest.MonkeyPatch
):
    own.save("a", {}, b"image")
    own.folder.chmod(0o777)
    assert own.load("a") is not None
    assert stat.S_IMODE(own.folder.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "getuid", lambda: own.folder.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="set XDG_CACHE_HOME"):
        assert own.load("a") is None
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        own.save("b", {}, b"image")
    assert not (own.folder / "b").exists()


def test_what_was_used_longest_ago_goes_first(own: Store):
    for i, name in enumerate("abcd"):
        own.save(name, {}, b"x" * 1000)
        os.utime(own.folder / name, (0, 1000.0 + i))
    assert own.load("a") is not None  # used now
    assert [entry.name for entry in own.entries()] == ["a", "d", "c", "b"]
    each = own.entries()[0].size
    part = own.folder / f"{store.PART}old"
    part.write_bytes(b"y" * 10)
    os.utime(part, (0, 0))
    young = own.folder / f"{store.PART}young"
    young.write_bytes(b"y")
    assert own.prune(2 * each) == 2 * each + 10
    assert [entry.name for entry in own.entries()] == ["a", "d"] and young.exists()
    assert own.clear() == 2 * each + 1 and not any(own.folder.iterdir())


def test_the_limit(monkeypatch: pytest.MonkeyPatch):
    for text, value in (
        ("", store.DEFAULT_LIMIT),
        ("1000", 1000),
        ("5M", 5 << 20),
        ("2gb", 2 << 30),
    ):
        monkeypatch.setenv("POLYC_CACHE_LIMIT", text)
        assert store.limit() == value
    monkeypatch.setenv("POLYC_CACHE_LIMIT", "much")
    with pytest.warns(RuntimeWarning, match="no number of bytes"):
        assert store.limit() == store.DEFAULT_LIMIT


def test_folders_that_are_relative_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POLYC_CACHE", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    for base in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert store.cache_root() == tmp_path / ".cache" / "polyc"
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        assert store.cache_root() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_root() == tmp_path / "polyc"


def test_what_polyc_cache_may_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for said in ("", "1", "cubins"):
        monkeypatch.setenv("POLYC_CACHE", said)
        assert store.cache_root() == tmp_path / "polyc"
    monkeypatch.setenv("POLYC_CACHE", "maybe")
    with pytest.warns(RuntimeWarning, match="POLYC_CACHE=maybe says nothing; 0 keeps nothing"):
        assert store.cache_root() == tmp_path / "polyc"


def work(folder: Path) -> None:
    """What a process does until it is killed; it exits with 1 where it meets a broken entry."""
    warnings.simplefilter("error")
    own = Store(folder)
    try:
        for i in count():
            name = f"e{i % 7}"
            found = own.load(name)
            if found is not None and found[1] != name.encode() * 50000:
                break
            own.save(name, {"i": i}, name.encode() * 50000)
    finally:
        os._exit(1)


def test_sixteen_processes_some_of_them_killed(own: Store):
    """None ever meets a broken entry, and what they leave is whole."""
    children: list[int] = []
    for _ in range(16):
        child = os.fork()
        if not child:
            work(own.folder)
        children.append(child)
    time.sleep(0.4)
    for child in children:
        time.sleep(0.003)
        os.kill(child, signal.SIGKILL)
    ended = [os.waitpid(child, 0)[1] for child in children]
    assert [os.WTERMSIG(status) for status in ended] == [signal.SIGKILL] * 16
    assert own.verify() == {} and len(own.entries()) == 7
