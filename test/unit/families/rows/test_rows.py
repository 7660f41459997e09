"""Rows: which regions are some, what their schedules ask, and which are refused and why."""

# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.ir import BlockArgument

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp
from polyc.families.rows.recognise import find_rows, row_lengths
from polyc.families.rows.schedules import ROWS, schedules
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.row_programs import PROGRAMS
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.tools.registry import make_context

X = "!region.memref<[M, N], f16, align 16>"
VAL = "!region.val<[m: M, n: N], f32>"
ROWS_ONLY = "!region.val<[m: M], f32>"
READ = f"""%x = region.read %X affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : {X} -> !region.val<[m: M, n: N], f16>
  %f = region.cast %x : !region.val<[m: M, n: N], f16> -> {VAL}"""
SUM = f'%acc = region.reduce sum %f over [n] init 0.0 acc f32 name "acc" : {VAL} -> {ROWS_ONLY}'


LARGEST = """%p = region.index affine_map<(d0, d1)[s0, s1] -> (d1)> : !region.val<[m: M, n: N], ui64>
  %acc = region.reduce max %p over [n] init 0 name "acc" : !region.val<[m: M, n: N], ui64> -> !region.val<[m: M], ui64>
  %y = region.cast %acc : !region.val<[m: M], ui64> -> !region.val<[m: M], f32>"""


def kernel(
    body: str,
    out: str = "%acc",
    iters: str = "[m: M]",
    shape: str = "[M]",
    values: str = ROWS_ONLY,
    ins: str = f"%X: {X}",
    facts: str = "",
) -> KernelOp:
    """A region over X of f16 with an output Y of f32."""
    text = f"""
region.kernel @rows iters {iters}
    ins({ins}) outs(Y: !region.memref<{shape}, f32, align 16> gmem){facts} {{
  {body}
  region.yield {out} : {values}
}}
"""
    module = parsed(text)
    verify(module)
    return only(module, KernelOp)


def region_of(name: str) -> KernelOp:
    """The region of a program of rows."""
    module = parsed(PROGRAMS[name].text)
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        build(border, "sm_80").apply(make_context(), module)
    return only(module, KernelOp)


def refusal(op: KernelOp) -> str:
    with pytest.raises(PolycError) as caught:
        schedules(find_rows(op), "sm_90a")
    assert caught.value.kind == "UnsupportedProgram" and caught.value.place is not None
    return caught.value.message


# Recognition -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "outer", "row", "reductions"),
    [
        ("softmax", ["m"], "n", 1),
        ("layer_norm", ["m"], "n", 2),
        ("rms_norm", ["m"], "n", 1),
        ("log_softmax", ["m"], "n", 1),
        ("extremes", ["m"], "n", 2),
        ("masked_heads", ["b", "h", "m"], "n", 1),
        ("one_row", [], "n", 1),
        ("padded_sum", ["m"], "r0", 1),
    ],
)
def test_rows_are_found(name: str, outer: list[str], row: str, reductions: int) -> None:
    rows = find_rows(region_of(name))
    assert [axis.label for axis in rows.outer] == outer
    assert rows.row.label == row and len(rows.reductions) == reductions


def test_tiles_of_a_tensor_are_copied() -> None:
    """Of X whole tiles; of a vector nothing, and of heads one row where a tile has several."""
    rows = find_rows(region_of("layer_norm"))
    assert [rows.copied(read, 4) for read in rows.reads] == [True, False, False]
    rows = find_rows(region_of("masked_heads"))
    copied: dict[str, tuple[bool, bool]] = {}
    for read in rows.reads:
        assert isinstance(read.tensor, BlockArgument)
        name = rows.kernel.arg_names.data[read.tensor.index].data
        copied[name] = rows.copied(read, 1), rows.copied(read, 4)
    assert copied == {"X": (True, True), "mask": (True, False)}


def test_a_read_under_a_guard_is_not_copied() -> None:
    rows = find_rows(region_of("padded_sum"))
    assert [rows.copied(read, 1) for read in rows.reads] == [False]


def test_lengths_in_memory() -> None:
    lengths = row_lengths(find_rows(region_of("sliced")))
    assert [str(length) for length in lengths] == ["N", "N + 24"]


TWO_AXES = (
    f"%acc = region.reduce sum %f over [m, n] init 0.0 acc f32 : {VAL} -> !region.val<[], f32>"
)
COLUMNS = (
    f"%acc = region.reduce sum %f over [m] init 0.0 acc f32 : {VAL} -> !region.val<[n: N], f32>"
)
BOTH = f"""{SUM}
  %m = region.reduce max %f over [m] init -inf : {VAL} -> !region.val<[n: N], f32>"""
NARROW = """%acc = region.reduce sum %x over [n] init 0.0 acc f16 : !region.val<[m: M, n: N], f16> -> !region.val<[m: M], f16>
  %y = region.cast %acc : !region.val<[m: M], f16> -> !region.val<[m: M], f32>"""
BESIDE = f"""{SUM}
  %y = region.broadcast_in_dim %acc dims [0] : {ROWS_ONLY} -> !region.val<[m: M, k: 4], f32>"""
TABLE = "%X: !region.memref<[V, N], f16, align 16>, %I: {}"
AT = """%t = region.read %X affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, N], f16, align 16> -> !region.val<[v: V, n: N], f16>
  %i = region.read %I {map} : {kind} -> {index}
  %x = region.gather %t at [%i] along [v] clamp : !region.val<[v: V, n: N], f16>, {index} -> !region.val<[m: M, n: N], f16>
  %f = region.cast %x : !region.val<[m: M, n: N], f16> -> !region.val<[m: M, n: N], f32>
  """
OF_ROWS = "!region.memref<[M], i64, align 8>"
OF_EACH = "!region.memref<[M, N], i64, align 8>"
AT_ROWS = AT.format(
    map="affine_map<(d0)[s0, s1, s2] -> (d0)>", kind=OF_ROWS, index="!region.val<[m: M], i64>"
)
AT_EACH = AT.format(
    map="affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)>",
    kind=OF_EACH,
    index="!region.val<[m: M, n: N], i64>",
)
STANDING = AT_ROWS.replace("[V, N]", "[N, V]").replace("(d0, d1)>", "(d1, d0)>")


def test_rows_at_indices_are_rows() -> None:
    rows = find_rows(kernel(AT_ROWS + SUM, ins=TABLE.format(OF_ROWS)))
    assert [a.label for a in rows.outer] == ["m"] and rows.row.label == "n"
    assert [op.labels for op in rows.gathers] == [("v",)] and rows.reads == []
    assert [str(length) for length in row_lengths(rows)] == ["N"]
    table = next(op for op in rows.kernel.body.block.ops if isinstance(op, ReadOp))
    assert rows.at_indices(table) and not rows.copied(table, 16)


VECTOR = f"""%v = region.read %V affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  %s = region.reduce sum %v over [n] init 0.0 acc f32 : !region.val<[n: N], f32> -> !region.val<[], f32>
  %acc = region.broadcast_in_dim %s dims [] : !region.val<[], f32> -> {ROWS_ONLY}"""


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (lambda: kernel(READ, "%f", "[m: M, n: N]", "[M, N]", VAL), "it reduces nothing"),
        (lambda: kernel(f"{READ}\n  {TWO_AXES}", "%acc", "[]", "[]", "!region.val<[], f32>"), "it reduces over [m, n]"),
        (lambda: kernel(f"{READ}\n  {COLUMNS}", "%acc", "[n: N]", "[N]", "!region.val<[n: N], f32>"), "where m is not the last axis"),
        (lambda: kernel(f"{READ}\n  {BOTH}"), "it reduces over [m] and over [n]"),
        (lambda: kernel(f"{READ}\n  {NARROW}", "%y"), "it sums in f16"),
        (lambda: kernel(f"{READ}\n  {BESIDE}", "%y", "[m: M, k: 4]", "[M, 4]", "!region.val<[m: M, k: 4], f32>"), "it reads no tensor over all of"),
        (lambda: kernel(AT_EACH + SUM, ins=TABLE.format(OF_EACH)), "its indices differ along n"),
        (lambda: kernel(STANDING + SUM, ins=TABLE.format(OF_ROWS).replace("[V, N]", "[N, V]")), "where n is not the last axis"),
        (lambda: kernel(VECTOR, ins=f"%X: {X}, %V: !region.memref<[N], f32, align 16>"), "it reads no tensor over all of [m: M, n: N]"),
        (lambda: kernel(f"{READ}\n  {LARGEST}", "%y"), "threads do not share its max of ui64"),
    ],
    ids=["nothing", "two axes", "columns", "both ways", "narrow", "beside", "differing", "standing", "vector", "integers"],
)  # fmt: skip
def test_other_regions_are_refused(op: Callable[[], KernelOp], reason: str) -> None:
    message = refusal(op())
    assert message.startswith("region @rows is not one of rows: ") and reason in message
    assert "rows take reductions along one axis that is the last one of what they read" in message


# Schedules -------------------------------------------------------------------------------------


TEAMS = [
    ("team", ["N mod 8 == 0", "-N >= -5242880"]),
]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_last_variant_takes_every_row(arch: str) -> None:
    found = ROWS.schedules(region_of("softmax"), arch)
    clusters = [
        ("kept_split2", ["N mod 8 == 0", "-N >= -65536"]),
        ("kept_split4", ["N mod 8 == 0", "-N >= -131072"]),
        ("kept_split8", ["N mod 8 == 0", "-N >= -262144"]),
        *TEAMS,
        ("chunks_split8", ["N mod 8 == 0", "-M >= -66", "N >= 65536"]),
    ]
    assert [(plan.variant.data, [str(f) for f in plan.when.data]) for plan in found] == [
        ("lanes", ["N mod 8 == 0", "-N >= -64"]),
        ("warp_256", ["N mod 8 == 0", "-N >= -256"]),
        ("warp_512", ["N mod 8 == 0", "-N >= -512"]),
        ("warp", ["N mod 8 == 0", "-N >= -1024"]),
        ("block_2048", ["N mod 8 == 0", "-N >= -2048"]),
        ("block_4096", ["N mod 8 == 0", "-N >= -4096"]),
        ("block_6144", ["N mod 8 == 0", "-N >= -6144"]),
        ("block", ["N mod 8 == 0", "-N >= -8192"]),
        ("kept", ["N mod 8 == 0", "-N >= -32768"]),
        *(clusters if arch == "sm_90a" else TEAMS),
        ("chunks", ["N mod 8 == 0"]),
        ("lanes_any", ["-N >= -64"]),
        ("warp_any_128", ["-N >= -128"]),
        ("warp_any_256", ["-N >= -256"]),
        ("warp_any_512", ["-N >= -512"]),
        ("warp_any", ["-N >= -1024"]),
        ("block_any_2048", ["-N >= -2048"]),
        ("block_any_4096", ["-N >= -4096"]),
        ("block_any", ["-N >= -8192"]),
        ("any", []),
    ]
    for plan in found:
        plan.verify()
        assert plan.pattern == "rows" and plan.mma.data == "none"
        assert ScheduleOp.from_json(plan.to_json()).fields() == plan.fields()


SHORT = ("lanes", "warp_256", "warp_512", "warp")
"""What takes short rows."""

WARPS = ("lanes_any", "warp_any_128", "warp_any_256", "warp_any_512", "warp_any")
SINGLE = (*WARPS, "block_any_2048", "block_any_4096", "block_any")
"""What takes rows that no vector divides, element by element."""


@pytest.mark.parametrize(
    ("facts", "variants"),
    [
        ("N mod 8 == 0", [*SHORT, "block_2048", "block_4096", "block_6144", "block", "chunks"]),
        ("N mod 8 == 0, N <= 512", ["lanes", "warp_256", "warp_512"]),
        (
            "N mod 16 == 0, N >= 2000",
            ["block_2048", "block_4096", "block_6144", "block", "chunks"],
        ),
        ("N mod 16 == 0, N >= 2000, N <= 4096", ["block_2048", "block_4096"]),
        ("N >= 9000", ["chunks", "any"]),
        ("N mod 8 == 1", [*SINGLE, "any"]),
        ("N mod 8 == 1, N <= 600", [*WARPS]),
    ],
)
def test_facts_leave_variants_out(facts: str, variants: list[str]) -> None:
    op = kernel(f"{READ}\n  {SUM}", facts=f" assuming ({facts})")
    assert [plan.variant.data for plan in ROWS.schedules(op, "sm_80")] == variants


FEW = ((64, 64), (16, 256), (8, 512), (4, 1024))
"""Tiles of several rows, for short ones."""


@pytest.mark.parametrize(
    ("facts", "tiles"),
    [
        ("N == 768", [(4, 1024)]),
        ("N == 200", [(16, 256)]),
        ("N == 2048", [(1, 2048)]),
        ("N <= 4096, N mod 8 == 0", [*FEW, (1, 2048), (1, 4096)]),
        ("N <= 3000, N mod 8 == 0", [*FEW, (1, 2048), (1, 4096)]),
    ],
)
def test_tiles_fit_known_rows(facts: str, tiles: list[tuple[int, int]]) -> None:
    op = kernel(f"{READ}\n  {SUM}", facts=f" assuming ({facts})")
    assert [plan.tile_sizes[:2] for plan in ROWS.schedules(op, "sm_80")] == tiles


def test_rows_at_any_address_take_no_variant_twice() -> None:
    """One tile has every row of 512 in vectors; single elements are for other addresses."""
    anywhere = X.replace("align 16", "align 2")
    body = f"{READ}\n  {SUM}".replace(X, anywhere)
    op = kernel(body, facts=" assuming (N == 512)", ins=f"%X: {anywhere}")
    assert [plan.variant.data for plan in ROWS.schedules(op, "sm_80")] == [
        "warp_512",
        "warp_any_512",
    ]


def test_the_shortest_rows_are_left_to_loops() -> None:
    op = kernel(f"{READ}\n  {SUM}", facts=" assuming (N <= 7)")
    with pytest.raises(PolycError) as caught:
        ROWS.schedules(op, "sm_80")
    assert caught.value.kind == "UnsupportedProgram"
    assert "its rows have N elements, fewer than the 8 that threads share" in caught.value.message


def test_rows_in_memory_are_multiples_too() -> None:
    (first, *_) = ROWS.schedules(region_of("padded_sum"), "sm_80")
    assert [str(fact) for fact in first.when.data] == ["N mod 8 == 0", "-N >= -56"]


def select(tmp_path: Path, name: str, **fields: object) -> list[ScheduleOp]:
    module = parsed(PROGRAMS[name].text)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    for border in ABOVE_GPU[: ABOVE_GPU.index("region-to-gpu")]:
        build(border, "sm_80", str(path)).apply(make_context(), module)
    return find(module, ScheduleOp)


def test_a_plan_may_hold_longer_rows(tmp_path: Path) -> None:
    wide = {"tile": [1, 16384, 1], "warp_tile": "1x1024"}
    plans = select(
        tmp_path, "softmax", variant="block", when=["N mod 8 == 0", "N <= 16384"], **wide
    )
    (plan,) = [plan for plan in plans if plan.variant.data == "block"]
    assert plan.tile_sizes == (1, 16384, 1) and plan.threads() == 512


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("softmax", {"variant": "warp", "when": []}, 'keeps a row of N in a tile of 1024 columns; add "-N >= -1024" to its when, or choose streaming'),
        ("one_row", {"variant": "warp", "tile": [4, 1024, 1]}, "has a tile of 4 rows, and the region has one"),
        ("softmax", {"algo_choice": {"loops": "serial"}}, "chooses a way for loops, and the region is rows"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_hold_the_row_is_refused(
    tmp_path: Path, name: str, fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(PolycError) as caught:
        select(tmp_path, name, **fields)
    assert caught.value.kind == "BadPlan" and reason in caught.value.message


def known(*shape: int | str) -> list[ScheduleOp]:
    """The schedules of a softmax over the last axis."""
    s = Sketch("rows")
    return find(run(s.done(y=s.softmax(s.input("x", *shape))), "plan"), ScheduleOp)


@pytest.mark.parametrize(
    ("length", "columns"),
    # A warp's threads take 256 elements in vectors, and a block's 2048.
    [(40, 64), (200, 256), (768, 768), (776, 1024), (3136, 4096), (4112, 6144), (5120, 6144)],
)
def test_a_tile_is_as_wide_as_rows_of_a_known_length(length: int, columns: int) -> None:
    assert known("M", length)[0].tile_sizes[1] == columns


@pytest.mark.parametrize(
    ("shape", "tile", "warp_tile"),
    [
        (("M", 64), (32, 64), (8, 64)),
        (("M", 8), (256, 8), (64, 8)),
        (("M", 300), (4, 384), (1, 384)),
        ((7, 64), (8, 64), (2, 64)),
        ((1, 64), (4, 64), (1, 64)),
        (("B", 3, 16), (128, 16), (32, 16)),
        (("B", 3, "M", 16), (128, 16), (32, 16)),
        ((64,), (1, 64), (1, 64)),
        ((16,), (1, 32), (1, 32)),
    ],
)
def test_a_warp_takes_several_short_rows(
    shape: tuple[int | str, ...], tile: tuple[int, int], warp_tile: tuple[int, int]
) -> None:
    """So many that each thread has 16 elements, and no more than there are."""
    first = known(*shape)[0]
    assert first.tile_sizes[:2] == tile and first.warp_tile_sizes == warp_tile
    assert first.threads() == (128 if len(shape) > 1 else 32)


@pytest.mark.parametrize(
    ("length", "vector", "variant"),
    [
        (49, 1, "warp"),
        (50, 2, "warp"),
        (1004, 4, "warp"),
        (4095, 1, "block"),
        (8200, 8, "kept"),
        (9001, 1, "chunks"),
    ],
)
def test_vectors_divide_rows_of_a_known_length(length: int, vector: int, variant: str) -> None:
    (plan,) = known("M", length)
    assert plan.integer("vectorize") == vector and plan.variant.data == variant


@pytest.mark.parametrize(
    ("length", "threads"), [(1032, 128), (2048, 128), (2056, 256), (8192, 256)]
)
def test_a_longer_row_has_threads_of_16_elements(length: int, threads: int) -> None:
    """At most 256 of them: fewer threads then meet in each reduction."""
    assert known("M", length)[0].threads() == threads


def test_integers_at_a_point_and_one_number_are_rows() -> None:
    """As places, seeds and random numbers are."""
    wide = "!region.val<[m: M, n: N], i32>"
    made = f"""{READ}
  %i = region.index affine_map<(d0, d1)[s0, s1] -> (d1)> : {wide}
  %s = region.read %S affine_map<()[s0, s1] -> ()> : !region.memref<[], i32, align 16> -> !region.val<[], i32>
  %w = region.broadcast_in_dim %s dims [] : !region.val<[], i32> -> {wide}
  %c = region.compare lt %i, %w : {wide}, {wide} -> !region.val<[m: M, n: N], i1>
  %z = region.binary sub %f, %f : {VAL}
  %g = region.select %c, %f, %z : !region.val<[m: M, n: N], i1>, {VAL}, {VAL} -> {VAL}
  %acc = region.reduce sum %g over [n] init 0.0 acc f32 name "acc" : {VAL} -> {ROWS_ONLY}"""
    ins = f"%X: {X}, %S: !region.memref<[], i32, align 16>"
    assert find_rows(kernel(made, ins=ins)).row.label == "n"
