"""``polyc cache``."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyc.runtime.store import Store
from polyc.tools.commands import cache
from polyc.tools.commands.command_line import run


def test_list_verify_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Store(tmp_path / "polyc" / "nvrtc")
    for name in ("a.cubin", "b.ptx"):
        store.save(name, {}, b"x" * 2048)
    assert run([cache.NAME, "list"]) == 0
    listed = capsys.readouterr().out
    assert "2.1 KiB  a.cubin" in listed and "2 entries, 4.2 KiB of 2048.0 MiB, in" in listed
    assert run(["cache", "verify"]) == 0
    (store.folder / "a.cubin").write_bytes(b"x")
    assert run(["cache", "verify"]) == 1
    shown = capsys.readouterr().out
    assert "a.cubin is damaged" in shown and "1 of 2 entries are whole" in shown
    programs = Store(tmp_path / "polyc" / "programs")
    programs.save("a.program", {"described": {}}, b"")
    (programs.folder / "a.program").write_bytes(b"x")
    assert run(["cache", "list"]) == 0 and "a.program" in capsys.readouterr().out
    assert run(["cache", "verify"]) == 1
    shown = capsys.readouterr().out
    assert "a.program is damaged" in shown and "1 of 1 entries are whole" in shown
    programs.save("a.program", {"described": {}}, b"")
    assert run(["cache", "clear"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("dropped 1 entries") == 2 and "and what texts and functions mean" in shown
    assert store.entries() == programs.entries() == []
    monkeypatch.setenv("POLYC_CACHE", "0")
    assert run(["cache", "list"]) == 1
    assert "there is no cache" in capsys.readouterr().err
