"""Programs on disk: what an entry answers, how it grows, what its name depends on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context

from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import kept, store, versions
from polyc.runtime.described import Described, Launch
from polyc.runtime.lowered import Lowered
from polyc.runtime.origin import Origin
from polyc.runtime.store import Store
from polyc.tools.parsing import parse_text

TEXT = """
gpu.module @job arch "sm_80" symbols [N] {
  gpu.kernel @one(%x: !gpu.global<[N], f32> = tensor 0) threads 64 {
    gpu.return
  }
  gpu.kernel @two(%x: !gpu.global<[N], f32> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[N], f32>) {
    gpu.launch @one when (N mod 8 == 0) align [16, 16] grid [N]
    gpu.launch @two align [4, 4] grid [1]
  }
}
"""


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("POLYC_CACHE", "1")
    return tmp_path / "polyc" / "programs"


@pytest.fixture
def lower(ctx: Context) -> Callable[[], Origin]:
    return lambda: Lowered(gpu_module_of(parse_text(ctx, TEXT, "m.mlir")))


def never() -> Origin:
    raise AssertionError("it is on disk")


def compiled(origin: Origin, kernel: str) -> bytes:
    return origin.code.result(origin.code.unit(kernel)).image


def test_what_ran_is_there_and_the_rest_is_lowered_when_it_is_asked_for(
    lower: Callable[[], Origin], disk: Path
):
    name = kept.key("program", {"ir": "a"})
    assert name is not None
    first = kept.origin(name, lower)
    launches: Sequence[Launch] = first.launches(1)
    image = compiled(first, "two")
    assert [entry.name for entry in Store(disk).entries()] == [name]

    again = kept.origin(name, never)
    assert again.described.choices[0].launches is None
    assert list(again.launches(1)) == list(launches) and launches[0].threads == 32
    assert compiled(again, "two") == image
    with pytest.raises(AssertionError, match="on disk"):
        again.launches(0)

    grown = kept.origin(name, lower)
    assert [launch.threads for launch in grown.launches(0)] == [64]
    compiled(grown, "one")
    # Another process that began before knows nothing of it, and takes nothing away.
    compiled(again, "two")
    again._publish()  # pyright: ignore
    whole = kept.origin(name, never)
    assert [choice.launches is None for choice in whole.described.choices] == [False, False]
    assert compiled(whole, "one") and compiled(whole, "two") == image
    assert whole.described == grown.described._replace(choices=whole.described.choices)


def test_cubins_that_went_are_compiled_from_the_source(lower: Callable[[], Origin], disk: Path):
    name = kept.key("program", {})
    image = compiled(kept.origin(name, lower), "one")
    Store(disk.parent / "nvrtc").clear()
    with pytest.raises(AssertionError, match="on disk"):
        compiled(kept.origin(name, never), "one")
    assert compiled(kept.origin(name, lower), "one") == image
    assert compiled(kept.origin(name, never), "one") == image


def test_all_kernels_at_once(lower: Callable[[], Origin]):
    name = kept.key("program", {})
    assert len(kept.origin(name, lower).code.results) == 2
    again = kept.origin(name, never)
    assert [set(result.kernels) for result in again.code.results] == [{"one"}, {"two"}]
    with pytest.raises(AssertionError, match="on disk"):
        again.module()


def works(name: str, lower: Callable[[], Origin], images: Sequence[bytes]) -> None:
    """What a process does until it is killed; it exits with 1 where anything is wrong."""
    warnings.simplefilter("error")
    folder = kept.programs_dir()
    assert folder is not None
    try:
        for turn in count(os.getpid()):
            found = kept.origin(name, lower)
            which = turn % 2
            if [launch.threads for launch in found.launches(which)] != [(64, 32)[which]]:
                break
            if compiled(found, ("one", "two")[which]) != images[which]:
                break
            if turn % 5 == 0:  # as `polyc cache clear` does, or what makes room
                (folder / name).unlink(missing_ok=True)
    finally:
        os._exit(1)


def test_sixteen_processes_some_of_them_killed(lower: Callable[[], Origin], disk: Path):
    """They make one program's entry, and let it grow, and drop it; it is whole whenever it is."""
    name = kept.key("program", {"ir": "many"})
    assert name is not None
    first = kept.origin(name, lower)
    images = [compiled(first, "one"), compiled(first, "two")]
    assert first.launches(0) and first.launches(1)
    children: list[int] = []
    for _ in range(16):
        child = os.fork()
        if not child:
            works(name, lower, images)
        children.append(child)
    time.sleep(0.5)
    for child in children:
        time.sleep(0.003)
        os.kill(child, signal.SIGKILL)
    ended = [os.waitpid(child, 0)[1] for child in children]
    assert [os.WTERMSIG(status) for status in ended] == [signal.SIGKILL] * 16
    for folder in (disk, disk.parent / "nvrtc"):
        assert Store(folder).verify() == {}
    again = kept.origin(name, lower)
    assert [[one.threads for one in again.launches(i)] for i in (0, 1)] == [[64], [32]]
    assert [compiled(again, kernel) for kernel in ("one", "two")] == images
    whole = kept.origin(name, never)
    assert whole.launches(0) and whole.launches(1) and compiled(whole, "two") == images[1]


def test_what_several_add_at_once_is_all_there(
    lower: Callable[[], Origin], monkeypatch: pytest.MonkeyPatch
):
    """Each reads the entry before another has written it, and writes it with what it has."""
    name = kept.key("program", {"ir": "several"})
    assert name is not None
    kept.origin(name, lower)
    slow = kept.load

    def loading(one: str | None) -> Any:
        found = slow(one)
        time.sleep(0.05)
        return found

    every = [kept.origin(name, lower) for _ in range(2)]
    monkeypatch.setattr(kept, "load", loading)
    threads = [threading.Thread(target=one.launches, args=(i,)) for i, one in enumerate(every)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = kept.origin(name, never)
    assert whole.launches(0) and whole.launches(1)


def test_a_process_that_is_stopped_holds_nobody_up(
    lower: Callable[[], Origin], disk: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store, "PATIENCE", 0.02)
    name = kept.key("program", {"ir": "stopped"})
    with Store(disk).alone():
        kept.origin(name, lower).launches(1)
    assert kept.origin(name, never).launches(1)


def damaged(head: dict[str, Any]) -> dict[str, Any]:
    head["described"]["choices"][0]["align"] = "16"
    return head


@pytest.mark.parametrize(
    "change", [damaged, {"units": [["one"]]}, {"described": 1}], ids=["field", "units", "another"]
)
def test_an_entry_of_other_data_is_made_anew(change: Any, lower: Callable[[], Origin], disk: Path):
    name = kept.key("program", {})
    assert name is not None
    kept.origin(name, lower).launches(1)
    head = json.loads((disk / name).read_bytes().split(b"\n")[1])
    other: Any = change(head) if callable(change) else head | change
    Store(disk).save(name, other, b"")
    with pytest.warns(RuntimeWarning, match="is of another kind .*; it is made anew"):
        found = kept.origin(name, lower)
    found.launches(1)
    assert kept.origin(name, never).described.choices[1].launches is not None


def test_a_damaged_entry_is_made_anew(lower: Callable[[], Origin], disk: Path):
    name = kept.key("program", {})
    assert name is not None
    kept.origin(name, lower).launches(1)
    whole = (disk / name).read_bytes()
    for data in (whole[:-5], whole[:10], b"", whole.replace(b"two", b"six")):
        (disk / name).write_bytes(data)
        with pytest.warns(RuntimeWarning, match="is damaged"):
            kept.origin(name, lower).launches(1)
        assert (disk / name).read_bytes() == whole


def test_the_name_depends_on_each_part_and_version(monkeypatch: pytest.MonkeyPatch):
    names = [kept.key("program", {"ir": "a"}), kept.key("source", {"ir": "a"})]
    assert names[0] == kept.key("program", {"ir": "a"})
    names.append(kept.key("program", {"ir": "b"}))
    known = dict(versions.versions())
    for one in known:
        changed = known | {one: "other"}
        monkeypatch.setattr(kept, "versions", changed.copy)
        names.append(kept.key("program", {"ir": "a"}))
    monkeypatch.setattr(kept, "versions", known.copy)
    monkeypatch.setattr(kept, "FORMAT", kept.FORMAT + 1)
    names.append(kept.key("program", {"ir": "a"}))
    assert None not in names and len(set(names)) == len(names) == 10


def test_where_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, lower: Callable[[], Origin]):
    for off in ("0", "cubins"):
        monkeypatch.setenv("POLYC_CACHE", off)
        assert kept.key("program", {}) is None
    found: Described = kept.origin(None, lower).described
    assert found.name == "job" and kept.load(None) is None
