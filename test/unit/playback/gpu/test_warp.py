"""A warp is put together of parts: none inherits from another, and none knows the warp."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

import pytest

from polyc.playback.gpu.counters import Counters
from polyc.playback.gpu.cta import Cluster
from polyc.playback.gpu.findings import Report
from polyc.playback.gpu.kernel import KernelInfo
from polyc.playback.gpu.warp import Warp
from polyc.test.support.root import ROOT

FOLDER = ROOT / "playback" / "gpu"

OTHERS: Mapping[str, set[str]] = {"im2col": {"tma"}}
"""Parts of another group that the translators of a group call."""


def warp() -> Warp:
    kernel = KernelInfo("k", 32, 1, 64, 4, False, False, False, frozenset(), [], [], [])
    cluster = Cluster(kernel, 0, Counters(), Report(), "late", random.Random(0))
    return Warp(cluster.ctas[0], 0)


def homes() -> dict[str, str]:
    """The parts of a warp by the names that translated kernels use, and their files."""
    return {name: type(part).__module__ for name, part in vars(warp()).items()}


def calls(source: str) -> set[str]:
    """The parts that a file's translators call."""
    return set(re.findall(r"\bw\.(\w+)\.", source))


def test_parts_are_put_together_and_do_not_inherit() -> None:
    parts: dict[str, object] = vars(warp())
    assert len(parts) > 10
    kinds = {type(part) for part in parts.values()}
    assert len(kinds) == len(parts)
    for name, part in parts.items():
        assert type(part).__bases__ == (object,), name
        things: dict[str, object] = vars(part)
        held = {type(thing) for thing in things.values()}
        assert Warp not in held, name
        assert name != "core" or not held & kinds


@pytest.mark.parametrize(
    "group",
    ["threads", "memory", "im2col", "sync", "cluster", "exchange", "grid", "tensor_cores"],
)
def test_a_group_s_ops_run_in_its_own_file(group: str) -> None:
    parts = homes()
    called = calls((FOLDER / f"{group}.py").read_text())
    assert called
    elsewhere = {name for name in called if parts[name] != f"polyc.playback.gpu.{group}"}
    assert elsewhere == OTHERS.get(group, set())


def test_every_part_is_called() -> None:
    called = {name for file in FOLDER.glob("*.py") for name in calls(file.read_text())}
    assert called == set(homes())


def test_a_call_is_seen() -> None:
    assert calls('t.line(f"yield from w.sync.barrier({t.mask})")') == {"sync"}
