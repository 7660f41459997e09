"""``gpu-overlap-launches``: every launch for sm_90a overlaps the one ahead of it."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.module import ModuleOp, followers
from polyc.passes.gpu.overlap_launches import OverlapLaunches
from polyc.rewriting.driver import rewrite
from polyc.test.support.gpu_text import find, kernel, only, parsed

DISPATCH = """
  gpu.dispatch (A: !gpu.global<[M, K], f16>) -> () {
    gpu.sequence @s when (N >= 2) align [2] {
      gpu.launch @k grid [M]
      gpu.launch @k grid [N]
    }
    gpu.launch @k align [2] grid [K]
  }"""


@pytest.mark.parametrize(("arch", "overlapped"), [("sm_90a", True), ("sm_80", False)])
def test_launches_overlap_where_the_architecture_has_it(arch: str, overlapped: bool) -> None:
    module = parsed(kernel("", arch=arch, dispatch=DISPATCH))
    assert rewrite(module, [OverlapLaunches()]) == overlapped
    assert [op.overlapped is not None for op in find(module, LaunchOp)] == [overlapped] * 3
    assert not rewrite(module, [OverlapLaunches()])


def test_a_module_without_a_dispatch_is_left_alone() -> None:
    module = parsed(kernel(""))
    assert not rewrite(module, [OverlapLaunches()])
    assert not only(module, ModuleOp).has_dispatch()


def test_what_follows_a_launch() -> None:
    first, second, alone = find(parsed(kernel("", dispatch=DISPATCH)), LaunchOp)
    assert followers(first) == [second]
    assert followers(second) == followers(alone) == [first, alone]
