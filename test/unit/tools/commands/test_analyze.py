"""``polyc analyze``: the report's schema, its proofs read back by isl, and every "why not"."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import islpy
import pytest

from polyc.affine import isl
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.poly.report import report_json
from polyc.test.fuzz.random_programs import drawn
from polyc.test.support.book_needs import booked_text
from polyc.test.unit.poly.test_compute_at import SOFTMAX
from polyc.tools import polyc
from polyc.tools.commands.analyze import reports_of
from polyc.tools.commands.analyze_text import report_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

EXAMPLES = ("gemm_bias_relu", "conv_silu", "causal_attention", "layer_norm")


@pytest.fixture(scope="module")
def reports() -> Mapping[str, Any]:
    """The report of each example, made once."""
    return {}


def report(reports: Any, name: str, root: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    if name not in reports:
        assert polyc.main(["analyze", str(root / "examples" / f"{name}.mlir"), "--json"]) == 0
        reports[name] = json.loads(capsys.readouterr().out)
    return reports[name]


def test_a_form_of_a_region_is_no_region(
    reports: Any, root: Path, capsys: pytest.CaptureFixture[str]
):
    """Of rows of any length some schedules have a form of their own."""
    found = report(reports, "softmax", root, capsys)
    assert [region["region"] for region in found["regions"]] == ["softmax"]
    assert {schedule["region"] for schedule in found["schedules"]} == {"softmax"}
    assert (
        len({schedule["variant"] for schedule in found["schedules"]}) == len(found["schedules"]) > 1
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_schema(name: str, reports: Any, root: Path, capsys: pytest.CaptureFixture[str]):
    """The names of the specification's sections 5 and 7, in every block."""
    found = report(reports, name, root, capsys)
    assert list(found) == [
        *("graph", "arch", "symbols", "poly_view", "analysis", "chains", "dependences"),
        *("guards", "why_not", "regions", "region_dependences", "schedules", "times"),
        *(["refused"] if "refused" in found else []),
    ]
    assert found["graph"] == name
    blocks = found["poly_view"]["blocks"]
    assert [b["name"] for b in blocks] == [b["block"] for b in found["analysis"]]
    for block, view in zip(found["analysis"], blocks, strict=True):
        axes = [a["name"] for a in view["axes"]]
        assert sorted(block["parallel_axes"] + block["reduce_axes"]) == sorted(axes)
        assert set(block["tail_axes"]) <= set(block["tile"]) <= set(axes)
        assert set(block["compute_at"]["halo"]["per_axis"]) == set(axes)
        assert isinstance(block["compute_at"]["ok"], bool)
        assert block["min_buffer"]["buffer"] in ("reg", "smem_ring", "gmem")
        assert block["affine_closure"] == {"ok": True, "open_at": []}
        assert re.fullmatch(r".*\.mlir:\d+:\d+", block["at"])
    for region in found["regions"]:
        assert region["parallel_axes"]
        assert region["writes"][0]["materialize"] in ("gmem", "deferred")


@pytest.mark.parametrize("name", EXAMPLES)
def test_isl_reads_every_relation(
    name: str, reports: Any, root: Path, capsys: pytest.CaptureFixture[str]
):
    found = report(reports, name, root, capsys)
    for dependence in found["dependences"]:
        for piece in dependence["relation"]:
            assert not islpy.Set(piece.replace("'", "_")).is_empty()
    for block in found["poly_view"]["blocks"]:
        for access in block["accesses"]:
            for piece in access.get("pieces", [access]):
                assert "fill" in piece or islpy.PwMultiAff(piece["map"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_ledger_holds(name: str, reports: Any, root: Path, capsys: pytest.CaptureFixture[str]):
    """isl, asked anew with the report's text: each failing point is outside of its guard."""
    found = report(reports, name, root, capsys)
    kept = found["guards"]["kept"]
    assert kept
    for entry in kept:
        failing = entry["failing"]
        if entry["of"].startswith("tail"):
            guard = re.fullmatch(r"(\w+) mod (\d+) = 0", entry["guard"])
            assert guard is not None
            assert failing["symbols"][guard[1]] % int(guard[2]) != 0
            continue
        rows = " and ".join(f"{n} = {v}" for n, v in failing["symbols"].items())
        point = ", ".join(map(str, failing["axes"].values()))
        names = ", ".join(failing["symbols"])
        at = islpy.Set(f"[{names}] -> {{ [{point}] : {rows} }}")
        assert at.intersect(islpy.Set(entry["guard"])).is_empty()


MASKED = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M, N], f32>)
    assuming (N >= 1, N <= 1) {
  %s = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill 0.0
      : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  %y = tiny.unary neg %s : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
"""


def test_a_dropped_guard_has_its_implication():
    found: Any = report_json(booked_text(MASKED), ARCHS["sm_80"])
    (entry,) = [g for g in found["guards"]["dropped"] if not g["of"].startswith("tail")]
    assert (entry["block"], entry["of"]) == ("y", "tiny.mask s")
    proof = entry["proof"]
    assert islpy.Set(proof["known"]).is_subset(islpy.Set(proof["is_within"]))
    assert proof["is_within"] == entry["guard"]


# Why not -------------------------------------------------------------------------------


def gemm(a: str = "f16", b: str = "f16", shape: str = "K", more: str = "", attrs: str = "") -> str:
    return f"""
tiny.graph @f(%A: !tiny.tensor<[M, {shape}], {a}>{attrs}, %B: !tiny.tensor<[{shape}, N], {b}>)
    -> (C: !tiny.tensor<[M, N], f32>) {more} {{
  %a = tiny.cast %A : !tiny.tensor<[M, {shape}], {a}> -> !tiny.tensor<[M, {shape}], f32>
  %b = tiny.cast %B : !tiny.tensor<[{shape}, N], {b}> -> !tiny.tensor<[{shape}, N], f32>
  %ae = tiny.expand %a dims [0, 1]
      : !tiny.tensor<[M, {shape}], f32> -> !tiny.tensor<[M, {shape}, N], f32>
  %be = tiny.expand %b dims [1, 2]
      : !tiny.tensor<[{shape}, N], f32> -> !tiny.tensor<[M, {shape}, N], f32>
  %t = tiny.binary mul %ae, %be : !tiny.tensor<[M, {shape}, N], f32>
  %c = tiny.reduce sum %t axes [1]
      : !tiny.tensor<[M, {shape}, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %c : !tiny.tensor<[M, N], f32>
}}
"""


def why_not(text: str) -> list[tuple[str, str]]:
    found: Any = report_json(booked_text(text), ARCHS["sm_90a"])
    return [(w["what"], w["reason"]) for w in found["why_not"]]


ALIGNED = "assuming (K mod 8 == 0, N mod 8 == 0)"


def test_nothing_is_refused():
    assert why_not(gemm(more=ALIGNED)) == []


def test_the_element_type():
    assert why_not(gemm(a="f32", b="f32", more=ALIGNED)) == [
        ("tensor_core", "A holds f32; tensor cores take f16 or bf16"),
        ("tensor_core", "B holds f32; tensor cores take f16 or bf16"),
    ]
    assert why_not(gemm(b="bf16", more=ALIGNED)) == [
        ("tensor_core", "the operands hold f16 and bf16; store both in one type")
    ]


def test_the_stride_with_values():
    assert why_not(gemm(more="assuming (K mod 4 == 0, N mod 8 == 0, K >= 1)")) == [
        (
            "tma",
            "the stride of dimension 0 of A is 2 * K bytes, and TMA needs a multiple of 16; "
            "with K = 4 it is 8",
        )
    ]
    assert why_not(gemm(shape="100", more="assuming (N mod 8 == 0)")) == [
        (
            "tma",
            "the stride of dimension 0 of A is 200 bytes, and TMA needs a multiple of 16",
        )
    ]


def test_outer_strides_follow_the_inner_ones(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """With rows of a multiple of 16 bytes, a product of symbols is one too."""
    text = (root / "examples" / "conv_silu.mlir").read_text()
    assumed = text.replace("[N, H, W, F], f16>) {", "[N, H, W, F], f16>) assuming (C mod 8 == 0) {")
    assert assumed != text
    file = tmp_path / "aligned_conv.mlir"
    file.write_text(assumed)
    assert polyc.main(["analyze", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["why_not"] == []


def test_the_address():
    assert why_not(gemm(attrs=" {align = 8 : i64}", more=ALIGNED)) == [
        ("tma", "A is aligned to 8 bytes, and TMA needs 16")
    ]


def test_a_computed_operand_is_not_in_memory():
    made = "%e = tiny.unary exp %a : !tiny.tensor<[M, K], f32>"
    text = gemm(more=ALIGNED).replace("%ae = tiny.expand %a", f"{made}\n  %ae = tiny.expand %e")
    assert [r for r in why_not(text) if r[0] != "fusion"] == [
        ("tensor_core", "e holds f32; tensor cores take f16 or bf16"),
        ("tensor_core", "the operands hold f32 and f16; store both in one type"),
        ("tma", "e is computed, and is not in global memory unless a kernel stores it there"),
    ]


def test_the_fill_outside_of_a_guard():
    kind = "!tiny.tensor<[M, K], f32>"
    condition = "affine_set<(d0, d1)[s0, s1, s2] : (d0 - d1 >= 0)>"
    masked = f"%p = tiny.mask %a where {condition} fill 1.0 : {kind} -> {kind}"
    text = gemm(more=ALIGNED).replace("%ae = tiny.expand %a", f"{masked}\n  %ae = tiny.expand %p")
    assert why_not(text) == [("tma", "A is 1.0 outside of a guard, and TMA fills zeros")]


def test_no_contraction():
    square = gemm(more=ALIGNED).replace("mul %ae, %be", "mul %ae, %ae")
    assert why_not(square)[0] == (
        "tensor_core",
        "not a contraction, as neither operand reads the output axis n",
    )


def test_a_fusion_with_its_points():
    first, *refusals = why_not(SOFTMAX)
    assert first == ("tensor_core", "no value is a sum of products")
    assert [w for w, _ in refusals] == ["fusion", "fusion"]
    for (_, reason), name in zip(refusals, "sm", strict=True):
        assert re.fullmatch(
            rf"{name} is not computed inside tiles of n, as element \[.*\] of {name} is needed at "
            r"n = \d+ and at n = \d+ when M = \d+, N = \d+",
            reason,
        )


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_have_reports(seed: int):
    """Every kind of op, as data and as text; whatever is refused is refused in a report."""
    source = Compilation(make_context(), drawn(random.Random(seed)).module, "sm_90a")
    reports: Any = reports_of(source, {}, None, "random")
    (found,) = reports
    json.dumps(found, allow_nan=False)
    text = report_text(found)
    for block in found["analysis"]:
        assert f"{block['block']} = {block['op']}" in text


# The command ---------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = polyc.main(["analyze", *args])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_tiles_of_the_user(root: Path, capsys: pytest.CaptureFixture[str]):
    file = str(root / "examples" / "gemm_bias_relu.mlir")
    code, out, _ = run(capsys, file, "--json", "--tile", "m=64", "--tile", "k=32")
    assert code == 0
    assert json.loads(out)["analysis"][0]["tile"] == {"m": 64, "n": 128, "k": 32}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--tile", "m"], "error[Usage]: --tile m is not AXIS=SIZE; write --tile m=128"),
        (["--tile", "m=0"], "error[Usage]: --tile m=0 is not AXIS=SIZE"),
        (["--tile=m=8", "--tile=m=8"], "error[Usage]: --tile gives m twice, 8 and 8"),
        (["--tile", "z=4"], "error[Usage]: --tile z: no block has the axis; there are k, m, n"),
        (["--graph", "g"], "error[NothingToAnalyze]: "),
        (["--arch", "sm_70"], "error[UnknownArch]: there is no architecture 'sm_70'"),
    ],
)
def test_bad_options(args: list[str], said: str, root: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, str(root / "examples" / "gemm_bias_relu.mlir"), *args)
    assert (code, out) == (1, "")
    assert said in err


def test_a_file_without_a_graph(root: Path, capsys: pytest.CaptureFixture[str]):
    file = str(root / "examples" / "gpu" / "row_sum.mlir")
    code, _, err = run(capsys, file)
    assert code == 1
    assert "error[NothingToAnalyze]: the file has no graph of the frontend or tiny layer" in err


def test_a_boundary_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = """
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> (y: !tiny.tensor<[M * M + M], f32>) {
  %p = tiny.pad %x low [M * M] high [0] value 0.0
      : !tiny.tensor<[M], f32> -> !tiny.tensor<[M * M + M], f32>
  %n = tiny.unary neg %p : !tiny.tensor<[M * M + M], f32>
  tiny.output %n : !tiny.tensor<[M * M + M], f32>
}
"""
    file = tmp_path / "f.mlir"
    file.write_text(text)
    code, out, _ = run(capsys, str(file))
    assert code == 0
    assert "p is a boundary\n" in out
    assert "              a region ends here: the pad of axis 0 has a border" in out
    assert "refused     NonSCoP: " in out
    code, out, _ = run(capsys, str(file), "--json")
    found = json.loads(out)
    assert found["poly_view"]["boundaries"][0]["value"] == "p"
    assert found["analysis"][0]["affine_closure"]["open_at"][0]["value"] == "p"


def test_the_operation_limit_is_a_diagnostic():
    graph = booked_text(MASKED.replace("M", "Rows"))
    with isl.limited(3), pytest.raises(PolycError, match="PolyhedralLimit"):
        report_json(graph, ARCHS["sm_80"])


def test_one_report_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "two.mlir"
    file.write_text(MASKED + MASKED.replace("@f", "@g"))
    _, out, _ = run(capsys, str(file), "--json")
    assert [r["graph"] for r in json.loads(out)] == ["f", "g"]
    _, out, _ = run(capsys, str(file), "--graph", "g")
    assert out.startswith("@g for sm_90a")
    assert "@f for" not in out


# Times ---------------------------------------------------------------------------------


def times(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    code, out, err = run(capsys, *args, "--json")
    assert code == 0, err
    return json.loads(out)["times"]


def test_every_kernel_has_a_time(root: Path, capsys: pytest.CaptureFixture[str]):
    file = str(root / "examples" / "models" / "squeeze_excite.mlir")
    found = times(capsys, file, "--set", "N=32", "--set", "H=56", "--set", "W=56")
    assert found["sizes"] == {"N": 32, "H": 56, "W": 56} and found["assumed"] == []
    assert len(found["kernels"]) == 4
    assert found["us"] == pytest.approx(sum(t["us"] for t in found["kernels"]), rel=0.02)
    for kernel in found["kernels"]:
        assert kernel["bound"] in ("tensor cores", "arithmetic", "memory", "launch")
        assert kernel["us"] >= kernel["launch_us"] > 0
    _, out, _ = run(capsys, file, "--set", "N=32", "--set", "H=56", "--set", "W=56")
    assert f"{found['us']:g} us together at N = 32, H = 56, W = 56\n" in out


def test_a_size_that_is_not_given_is_typical(root: Path, capsys: pytest.CaptureFixture[str]):
    file = str(root / "examples" / "gemm_bias_relu.mlir")
    found = times(capsys, file, "--set", "M=4096")
    assert found["sizes"] == {"M": 4096, "K": 1024, "N": 1024}
    assert found["assumed"] == ["K", "N"]
    assert found["us"] < times(capsys, file, "--set", "M=65536")["us"]
    _, out, _ = run(capsys, file)
    assert "at M = 1024, K = 1024, N = 1024 (1024 where --set does not say)" in out


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["Q=1"], "error[UnknownSymbol]: --set Q=1: @gemm_bias_relu has no symbol 'Q'"),
        (["M=x"], "error[BadSize]: --set M=x is not NAME=INTEGER"),
        (["M=1", "M=2"], "error[BadSize]: --set gives M twice"),
        (["M=30000000000"], "error[BadSize]: A has a size of M"),
    ],
)
def test_bad_sizes(settings: list[str], said: str, root: Path, capsys: pytest.CaptureFixture[str]):
    given = [part for text in settings for part in ("--set", text)]
    code, out, err = run(capsys, str(root / "examples" / "gemm_bias_relu.mlir"), *given)
    assert code == 1 and out == ""
    assert said in err


def test_sizes_that_a_graph_excludes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Given ones are refused, and where the typical one is, the line says what to do."""
    file = tmp_path / "small.mlir"
    file.write_text(gemm(shape="K", more="assuming (512 - K >= 0)"))
    code, out, err = run(capsys, str(file))
    assert code == 0, err
    assert "assumes" in out and "give sizes by --set" in out
    assert times(capsys, str(file), "--set", "K=512")["us"] > 0
    code, _, err = run(capsys, str(file), "--set", "K=1024")
    assert code == 1 and "error[AssumptionViolated]" in err


EMBEDDING = """
frontend.graph @embedding(%x: !frontend.tensor<[V, D], f16>, %i: !frontend.tensor<[N], i64>)
    -> !frontend.tensor<[N, D], f16> {
  %0 = frontend.elementwise exp %x : !frontend.tensor<[V, D], f16>
  %1 = frontend.gather %0, %i axis 0 clamp
      : (!frontend.tensor<[V, D], f16>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16>
  frontend.output %1 : !frontend.tensor<[N, D], f16>
}
"""


def test_a_gather_is_no_reduction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "embedding.mlir"
    file.write_text(EMBEDDING)
    assert polyc.main(["analyze", str(file)]) == 0
    said = capsys.readouterr().out
    assert "axes        parallel n d; reads any place of v" in said and "reduced" not in said
    assert polyc.main(["analyze", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (block,) = (b for b in found["analysis"] if b["op"] == "tiny.gather")
    assert (block["parallel_axes"], block["reduce_axes"]) == (["n", "d"], [])
    assert block["gather_axes"] == ["v"]
    # What is computed is wanted whole along that axis, and no tile of the indices owns a part.
    (producer,) = block["compute_at"]["producers"]
    assert producer["legal_axes"] == ["d"] and not producer["ok"]
    (view,) = (b for b in found["poly_view"]["blocks"] if b["op"] == "tiny.gather")
    assert view["kind"] == "gather"
    assert {"tensor": "i", "map": "[V, D, N] -> { [n, d, v] -> i[n] }"} in view["accesses"]
    assert found["regions"][0]["reduce_axes"] == []


COUNTS = """
frontend.graph @counts(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>,
    %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %0 = frontend.scatter add %x, %i, %u axis 0
      : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>)
      -> !frontend.tensor<[V, D], f32>
  frontend.output %0 : !frontend.tensor<[V, D], f32>
}
"""


def test_a_scatter_goes_through_its_updates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.mlir"
    file.write_text(COUNTS)
    assert polyc.main(["analyze", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (block,) = (b for b in found["analysis"] if b["op"] == "tiny.scatter add")
    assert (block["parallel_axes"], block["reduce_axes"]) == (["v", "d"], ["n"])
    assert block["gather_axes"] == []
    (view,) = (b for b in found["poly_view"]["blocks"] if b["op"] == "tiny.scatter add")
    assert view["kind"] == "scatter"
    assert {"tensor": "u", "map": "[V, D, N] -> { [v, d, n] -> u[n, d] }"} in view["accesses"]
