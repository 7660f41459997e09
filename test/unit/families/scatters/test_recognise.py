"""Regions with a scatter: their rows and columns, and which are none of the family, and why."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.families.registry import FAMILIES
from polyc.families.scatters.recognise import Scatters, find_scatters
from polyc.families.scatters.schedules import SCATTERS
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.scattering import WRITES, Writer
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

X = "!region.memref<[V, D], f32, align 16>"
U = "!region.memref<[N, D], f32, align 16>"
I = "!region.memref<[N], i64, align 16>"  # noqa: E741
VD, V = "!region.val<[v: V, d: D], f32>", "!region.val<[v: V], f32>"
SCATTER = (
    "region.scatter add %{}, %u where [%i is %p] over [n] : "
    f"{VD}, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> "
    f"-> {VD}"
)


def kernel(body: str, kind: str = VD, memory: str = X) -> KernelOp:
    """A region with a body that makes ``%s`` of what is read."""
    module = parsed(f"""
region.kernel @k iters [v: V, d: D] ins(%X: {X}, %I: {I}, %U: {U}) outs(y: {memory} gmem) {{
  %x = region.read %X affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : {X} -> {VD}
  %u = region.read %U affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : {U} -> !region.val<[n: N, d: D], f32>
  %i = region.read %I affine_map<(d0)[s0, s1, s2] -> (d0)> : {I} -> !region.val<[n: N], i64>
  %p = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  {body}
  region.yield %s : {kind}
}}""")  # noqa: E501
    verify(module)
    return only(module, KernelOp)


def region(
    kind: type[frontend.GatherOp | frontend.GatherElementsOp | frontend.GatherNdOp],
    shape: tuple[Size, ...],
    indices: tuple[Size, ...],
    updates: tuple[Size, ...],
    number: int = 0,
    element: Attribute = f32,
    fn: str = "add",
) -> Scatters:
    """The region of a scatter where a gather reads."""
    s, op = Sketch("f", element), WRITES[kind]
    x, i, u = s.input("x", *shape), s.input("i", *indices, element=i64), s.input("u", *updates)
    made: Writer = op(fn, x, i, u, number)
    module = s.done(y=s.add(made))
    for name in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        run_pass(make_context(), build(name, "sm_90a"), module)
    return find_scatters(only(module, KernelOp))


def parts(found: Scatters) -> tuple[str | None, str | None, list[str], bool]:
    """The sizes of the row, the column and other axes; whether an update falls to a row."""

    def size(axis: object) -> str | None:
        return None if axis is None else str(axis.size)  # pyright: ignore

    row, column = size(found.row), size(found.column)
    return row, column, [str(axis.size) for axis in found.outer], found.single is not None


def test_the_parts_of_a_text() -> None:
    found = find_scatters(kernel(f"%s = {SCATTER.format('x')}"))
    assert parts(found) == ("V", "D", [], True)
    assert found.placed == {"v"} and found.single == "v"
    assert [(label, str(size)) for label, size in found.over] == [("n", "N")]
    assert [str(size) for size in found.lengths] == ["D"] and set(found.beside) == {f32}


ROWS, EACH, TUPLES = frontend.GatherOp, frontend.GatherElementsOp, frontend.GatherNdOp


def test_rows_fall_to_a_row_of_a_tile() -> None:
    assert parts(region(ROWS, ("V", "D"), ("N",), ("N", "D"))) == ("V", "D", [], True)
    whole = region(ROWS, ("V", 4, "D"), ("N",), ("N", 4, "D"))
    assert whole.row is not None and str(whole.row.size) == "V" and whole.single is not None


def test_elements_of_a_line_have_no_columns() -> None:
    assert parts(region(ROWS, ("V",), ("N",), ("N",))) == ("V", None, [], True)
    assert parts(region(ROWS, ("A", "V"), ("N",), ("A", "N"), 1)) == ("V", None, ["A"], True)
    assert parts(region(EACH, ("A", "V"), ("A", "N"), ("A", "N"), 1)) == ("V", None, ["A"], True)


def test_a_short_line_is_a_tile_s_columns() -> None:
    """An update falls to a place of it, and a tile has as many lines as threads find."""
    for writes in (ROWS, EACH):
        indices = (40,) if writes is ROWS else ("A", 40)
        found = region(writes, ("A", 100), indices, ("A", 40), 1)
        assert parts(found) == ("A", "100", [], False)
        longer = region(writes, ("A", 200), indices, ("A", 40), 1)
        assert parts(longer) == ("200", None, ["A"], True)


def test_an_index_that_columns_do_not_share_falls_to_a_place() -> None:
    """Along rows each column has indices of its own, so that none falls to a whole row."""
    assert parts(region(EACH, ("V", "D"), ("N", "D"), ("N", "D"))) == ("V", "D", [], False)


def test_several_indices_fall_to_a_place_of_all() -> None:
    found = region(TUPLES, ("V", "D"), ("N", 2), ("N",))
    assert parts(found) == ("V", "D", [], False)
    assert len(found.placed) == 2


SUM = f"%s = region.reduce sum %x over [d] init 0.0 acc f32 : {VD} -> {V}"
TWICE = f"%t = {SCATTER.format('x')}\n%s = {SCATTER.format('t')}"
REDUCED = f"%t = {SCATTER.format('x')}\n{SUM.replace('%x', '%t')}"


@pytest.mark.parametrize(
    ("body", "of_rows", "why"),
    [
        ("%s = region.unary neg %x : " + VD, False, "it has 0; they have one region.scatter"),
        (TWICE, False, "it has 2; they have one region.scatter"),
        (REDUCED, True, r"it reduces over \[d\] too"),
    ],
)
def test_what_is_none(body: str, of_rows: bool, why: str) -> None:
    kind, memory = (V, X.replace(", D", "")) if of_rows else (VD, X)
    with pytest.raises(PolycError, match=f"region @k is not one of scatters: {why}") as refused:
        find_scatters(kernel(body, kind, memory))
    assert refused.value.kind == "UnsupportedProgram"


def test_a_place_is_an_expression_of_axes() -> None:
    there = "!region.val<[v: V], i64>"
    body = f"""%z = region.constant 0 : !region.val<[], i64>
  %c = region.broadcast_in_dim %z dims [] : !region.val<[], i64> -> {there}
  %s = {SCATTER.format("x").replace("is %p", "is %c")}"""
    found = kernel(body)
    with pytest.raises(PolycError, match="a place is no expression of its axes"):
        find_scatters(found)


def test_no_family_before_takes_a_scatter() -> None:
    """Nor one behind it but the last, which is not asked."""
    found = kernel(f"%s = {SCATTER.format('x')}")
    taking = [family for family in FAMILIES if family.takes(found)]
    assert taking[0] is SCATTERS and len(taking) <= 2


def test_one_that_is_none_is_refused_with_a_way_out() -> None:
    module = kernel(TWICE).parent_op()
    assert isinstance(module, ModuleOp)
    with pytest.raises(PolycError, match="make its result an output of a graph of its own"):
        for name in ("plan-select", "region-to-gpu"):
            run_pass(make_context(), build(name, "sm_90a"), module)
