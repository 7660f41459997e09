"""Regions with a scan: which are some, what their schedules ask, and which are refused and why."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value
from polyc.dialects.region import KernelOp
from polyc.families.registry import FAMILIES
from polyc.families.scans.recognise import find_scans
from polyc.families.scans.schedules import SCANS, is_shared
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

VAL = "!region.val<[m: M, n: N], f32>"
X = "!region.memref<[M, N], f32, align 16>"


def kernel(body: str, out: str = "%s", kind: str = VAL, memory: str = X) -> KernelOp:
    module = parsed(f"""
region.kernel @k iters [m: M, n: N] ins(%x: {X}) outs(y: {memory} gmem) {{
  %r = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : {X} -> {VAL}
  {body}
  region.yield {out} : {kind}
}}""")
    verify(module)
    return only(module, KernelOp)


def region(*shape: Size, axis: int = 1, element: Attribute = f32, facts: str = "") -> KernelOp:
    s = Sketch("f", element)
    module = s.done(y=s.add(frontend.ScanOp("sum", s.input("x", *shape), axis)))
    for name in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        run_pass(make_context(), build(name, "sm_90a"), module)
    return only(module, KernelOp)


SCAN = f"%s = region.scan sum %r along n : {VAL}"
TWICE = f"%t = region.scan sum %r along m : {VAL}\n%s = region.scan max %t along n : {VAL}"
LINE = "!region.val<[m: M], f32>"
SUMMED = f"{SCAN}\n%t = region.reduce sum %s over [n] init 0.0 acc f32 : {VAL} -> {LINE}"


def test_the_parts_of_a_region() -> None:
    scans = find_scans(kernel(SCAN))
    assert (scans.along, scans.outer, scans.row, scans.column) == ("n", (), None, "m")
    assert scans.is_of_rows and is_shared(scans)
    other = find_scans(kernel(f"%s = region.scan sum %r along m : {VAL}"))
    assert (other.along, other.column, other.is_of_rows) == ("m", "n", False)


@pytest.mark.parametrize(
    ("body", "out", "why"),
    [
        ("", "%r", "it has no scan"),
        (TWICE, "%s", "it has 2 scans"),
        (
            SUMMED,
            "%t",
            "it reduces beside its scan",
        ),
    ],
)
def test_what_is_none(body: str, out: str, why: str) -> None:
    kind, memory = (VAL, X) if out != "%t" else ("!region.val<[m: M], f32>", X.replace(", N", ""))
    found = kernel(body, out, kind, memory)
    with pytest.raises(PolycError, match=why):
        find_scans(found)


def test_no_other_family_takes_a_scan() -> None:
    """What would compute each point again from the first refuses it, the last of all too."""
    for family in FAMILIES:
        assert family.takes(kernel(SCAN)) == (family is SCANS), family.name


def plans(found: KernelOp) -> list[ScheduleOp]:
    return SCANS.schedules(found, "sm_90a")


def test_lines_are_shared_where_they_lie_in_memory() -> None:
    names = [plan.variant.data for plan in plans(region(16384, 4096))]
    assert names == ["vector4"]
    wide = plans(region("M", "N", element=f16))
    assert [p.variant.data for p in wide][:2] == ["vector8_256", "vector8_1024"]
    assert wide[-1].when.data == () and wide[-1].variant.data == "scalar"
    alone = plans(region("M", "N", axis=0))
    assert {str(p.algo_choice.data["scans"]) for p in alone} == {'"serial"', '"chains"'}
    whole = plans(region("M", "N", element=i64))
    assert {str(p.algo_choice.data["scans"]) for p in whole} == {'"rows"'}
    beside = plans(region("M", "N", element=i64, axis=0))
    assert {str(p.algo_choice.data["scans"]) for p in beside} == {'"serial"'}


def test_a_thread_walks_a_short_line() -> None:
    assert [plan.variant.data for plan in plans(region("M", 8))] == ["scalar"]
    assert "scalar_32" in [plan.variant.data for plan in plans(region("M", 9))]


CHAIN: dict[str, Value] = {"algo_choice": {"scans": "chains"}, "persistent": True}

RINGED = {
    **CHAIN,
    "loader": "cp_async",
    "tile": [64, 128, 1],
    "warp_tile": [8, 128],
    "vectorize": 4,
}
"""Of lines that lie side by side."""


@pytest.mark.parametrize(
    ("axis", "fields", "message"),
    [
        (1, {"tile": [1, 4096, 2]}, "has a tile of depth 2"),
        (1, {"tile": [3, 4096, 1], "warp_tile": [3, 512]}, "gives each of 8 warps 3x512"),
        (1, {"vectorize": 2}, "8 warps with 8 vectors a thread for a row, which leave 64"),
        (1, {"tile": [1, 1536, 1], "warp_tile": [1, 192]}, "vectors of 4: a row is for"),
        (1, {"persistent": True}, "persistent"),
        (1, {"cluster": [2, 1]}, "cluster"),
        (1, {"algo_choice": {"scans": "teams"}}, "by chains or teams has, and no other; use true"),
        (1, {"algo_choice": {"scans": "chains"}}, "chains or teams has, and no other; use true"),
        (0, {**CHAIN, "tile": [4, 96, 1], "warp_tile": [1, 96]}, "a power of two of them is"),
        (1, {"stages": 2}, "a scan by rows does not have with the loader register; use 1"),
        (1, {"loader": "cp_async"}, "a loader that chains of tiles that lie in a tensor"),
        (1, {"loader": "tma"}, "loader"),
        (0, {**RINGED, "stages": 2}, "with the loader cp_async; use 3 to 4"),
        (0, {"algo_choice": {"scans": "rows"}}, "lets threads share lines"),
    ],
)
def test_plans_that_do_not_suit(axis: int, fields: dict[str, Value], message: str) -> None:
    found = region("M", "N", axis=axis)
    name = "vector4" if axis else "scalar"
    plan = next(one for one in plans(found) if one.variant.data == name)
    with pytest.raises(PolycError, match=message):
        changed = ScheduleOp("f", "mine", {**plan.fields(), **fields}, ())
        SCANS.check(found, SCANS.completed(found, changed, fields))


def test_every_schedule_is_what_it_says() -> None:
    for found in (region("M", "N"), region("M", "N", axis=0), region("M", "N", "K", axis=1)):
        for plan in plans(found):
            SCANS.check(found, plan)
    assert not find(kernel(SCAN), ScheduleOp)
