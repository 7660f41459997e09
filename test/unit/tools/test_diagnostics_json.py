"""The kinds that the specification names, each from text, as lines of JSON (S6.8, S14.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from polyc.tools.polyc import main as polyc
from polyc.tools.polyc_opt import main as polyc_opt


class Case(NamedTuple):
    """A text that is refused; ``passes`` are run on it, ``line`` is where the op stands."""

    kind: str
    layer: str
    line: int
    text: str
    passes: str = ""
    shapes: list[list[str]] | None = None
    numbers: list[float] | None = None


X, Y = "!frontend.tensor<[M, N], f32>", "!frontend.tensor<[M, 3], f32>"
T1 = "!tiny.tensor<[N], f32>"


def booked(entry: str) -> str:
    return f"""tiny.graph @f(%x: {T1}) -> (y: {T1}) {{
  index.value %x axes [i0(0): N] box : {T1}
  %y = tiny.unary exp %x : {T1}
  index.value %y axes [i0(1): N] {entry} : {T1}
  tiny.output %y : {T1}
}}"""


def kernel(body: str, out: str = "[M], f32") -> str:
    return f"""region.kernel @k iters [m: M]
    ins(%A: !region.memref<[M, K], f32, align 16, noalias>)
    outs(C: !region.memref<{out}, align 16, noalias> gmem) {{
  %0 = region.read %A affine_map<(d0, d1)[s0, s1] -> (d0, d1)>
      : !region.memref<[M, K], f32, align 16, noalias> -> !region.val<[m: M, k: K], f32>
{body}
}}"""


SUM = ": !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>"

CASES = (
    Case("BroadcastMismatch", "frontend", 2,
         f"frontend.graph @f(%x: {X}, %y: {Y}) -> (z: {X}) {{\n"
         f"  %z = frontend.elementwise add %x, %y : ({X}, {Y}) -> {X}\n"
         f"  frontend.output %z : {X}\n}}", shapes=[["M", "N"], ["M", "3"]]),
    Case("AccDtypeMissing", "frontend", 2,
         "frontend.graph @f(%x: !frontend.tensor<[M, K], f16>, %y: !frontend.tensor<[K, N], f16>)"
         " -> (z: !frontend.tensor<[M, N], f16>) {\n"
         "  %z = frontend.gemm %x, %y : (!frontend.tensor<[M, K], f16>, "
         "!frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>\n"
         "  frontend.output %z : !frontend.tensor<[M, N], f16>\n}"),
    Case("NegativeStrideUnsupported", "frontend", 2,
         f"frontend.graph @f(%x: {X}) -> (z: {X}) {{\n"
         f"  %z = frontend.slice %x [0:M, 0:N:-1] : {X} -> {X}\n  frontend.output %z : {X}\n}}",
         numbers=[-1, 1, 1]),
    Case("NonSCoP", "frontend", 2,
         f"frontend.graph @f(%x: {X}) -> (z: {X}) {{\n"
         f"  %z = frontend.slice %x [0:M, 0:N:N] : {X} -> {X}\n  frontend.output %z : {X}\n}}"),
    Case("MissingDivGuard", "index", 4,
         booked("box from [affine_map<(d0)[s0] -> (d0 mod 2)>]")),
    Case("UnguardedAccess", "index", 4,
         booked("box from [affine_map<(d0)[s0] -> (d0 + 1)>]")),
    Case("ExcessivePiecewise", "index", 4,
         booked("pieces [" + ", ".join(
             f"affine_set<(d0)[s0] : (d0 - {i} == 0)> from [fill 0.0]" for i in range(65)) + "]"),
         numbers=[65, 64]),
    Case("AxisAlignmentMismatch", "region", 6, kernel(
         "  %1 = region.transpose %0 perm [1, 0] "
         ": !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>\n"
         f"  %2 = region.reduce sum %1 over [k] init 0.0 acc f32 name \"a\" {SUM}\n"
         "  region.yield %2 : !region.val<[m: M], f32>")),
    Case("NeutralInvalid", "region", 6, kernel(
         f"  %2 = region.reduce sum %0 over [k] init 1.0 acc f32 name \"a\" {SUM}\n"
         "  region.yield %2 : !region.val<[m: M], f32>")),
    Case("PolyhedralLimit", "tiny-to-index", 2,
         f"tiny.graph @f(%x: {T1}) -> (y: {T1}) {{\n"
         "  %y = tiny.mask %x where affine_set<(d0)[s0] : (d0 * 3 - s0 >= 0)> fill 0.0 "
         f": {T1} -> {T1}\n  tiny.output %y : {T1}\n}}", "tiny-to-index"),
)  # fmt: skip


def lines(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.kind)
@pytest.mark.parametrize("flag", [("--diagnostics=json",), ("--diagnostics", "json")])
def test_kinds_of_the_specification(
    case: Case,
    flag: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from polyc.affine import isl

    path = tmp_path / "case.mlir"
    path.write_text(case.text)
    passes = ["-p", case.passes] if case.passes else []
    limit = 3 if case.kind == "PolyhedralLimit" else isl.MAX_OPERATIONS
    with isl.limited(limit):
        assert polyc_opt([str(path), *passes, *flag]) == 1
    (error,) = lines(capsys.readouterr().err)
    # A symbolic step is refused while its text is read, before there is an op of a layer.
    layer = None if case.kind == "NonSCoP" else case.layer
    assert (error["kind"], error["layer"]) == (case.kind, layer), error
    assert (error["file"], error["line"]) == (str(path), case.line), error
    assert error["column"] >= 1 and error["message"] and error["notes"] == []
    assert case.shapes is None or error["shapes"] == case.shapes
    assert case.numbers is None or error["numbers"] == case.numbers


def test_a_resource_that_is_exceeded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command compiles with a plan of the user's that takes too much shared memory."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"variant": "tma", "stages": 8}')
    args = ["compile", "examples/gemm_bias_relu.mlir", "--arch", "sm_90a", "--plan", str(plan)]
    assert polyc([*args, "--diagnostics=json"]) == 1
    (error,) = lines(capsys.readouterr().err)
    assert (error["kind"], error["layer"]) == ("ResourceExceeded", "plan-select")
    assert (error["file"], error["line"]) == (str(plan), 1)
    assert {8, 232448} <= set(error["numbers"])


def test_remarks_are_lines_of_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    """NonAssociativeTransform is no error: the pass leaves the reduction as it is."""
    path = "test/filecheck/region/region-srnf/refused.mlir"
    assert polyc_opt([path, "-p", "region-srnf{report=true}", "--diagnostics=json"]) == 0
    found = lines(capsys.readouterr().err)
    refusals = [n for n in found if n["kind"] == "NonAssociativeTransform"]
    assert refusals and all(n["level"] == "remark" and n["line"] for n in refusals)
    assert refusals[0]["layer"] == "region" and refusals[0]["file"] == path


def test_the_command_line_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert polyc(["run", "--diagnostics=json"]) == 1
    (error,) = lines(capsys.readouterr().err)
    assert (error["kind"], error["file"], error["layer"]) == ("Usage", None, None)
    assert polyc_opt(["no_such_file.mlir", "--diagnostics", "json"]) == 1
    (error,) = lines(capsys.readouterr().err)
    assert (error["kind"], error["file"]) == ("FileNotFound", "no_such_file.mlir")


def test_text_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert polyc_opt(["json"]) == 1
    assert capsys.readouterr().err.startswith("json: error[FileNotFound]")
