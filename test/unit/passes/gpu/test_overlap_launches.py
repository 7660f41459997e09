"""``gpu-overlap-launches``: every launch for sm_90a overlaps the one ahead of it."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp

from polyc.dialects.common.dim import ShapeAttr
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.module import ModuleOp, is_overlapped_next
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


def overlapped_next(module: BuiltinModuleOp, arch: str) -> list[bool]:
    return [is_overlapped_next(launch, arch) for launch in find(module, LaunchOp)]


def test_what_follows_a_launch_overlaps_it_where_it_says_so() -> None:
    module = parsed(kernel("", arch="sm_90a", dispatch=DISPATCH))
    assert overlapped_next(module, "sm_90a") == [False] * 3
    rewrite(module, [OverlapLaunches()])
    assert overlapped_next(module, "sm_90a") == [True] * 3
    _, second, _ = find(module, LaunchOp)
    second.overlapped = None
    # The first is followed by the second; that one by what is called next.
    assert overlapped_next(module, "sm_90a") == [False, False, True]
    second.cooperative = ShapeAttr.of([1])
    assert overlapped_next(module, "sm_90a") == [False, True, True]
    assert overlapped_next(module, "sm_80") == [False] * 3
