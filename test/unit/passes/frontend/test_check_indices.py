"""A debug build says which index is outside, and computes what another build does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import ui8, ui64
from polyc.dialects.frontend import GraphOp
from polyc.passes.frontend.check_indices import FrontendCheckIndices, ReportIndices
from polyc.playback.frontend import run
from polyc.playback.functions import Array, dtype_of
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite
from polyc.rewriting.frontend.traps import first_error, traps
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.tools.load import load
from polyc.tools.registry import make_context


def graph_in(module: ModuleOp) -> GraphOp:
    graph = next(iter(module.ops))
    assert isinstance(graph, GraphOp)
    return graph


def rows(element: Attribute = i32, *, from_end: bool = False, trap: bool = True) -> ModuleOp:
    s = Sketch("f", f32)
    x, i = s.input("x", "V", 3), s.input("i", "N", element=element)
    return s.done(y=s.add(frontend.GatherOp(x, i, 0, from_end=from_end, trap=trap)))


X = np.arange(15, dtype=np.float32).reshape(5, 3)

CASES: tuple[tuple[Attribute, Any, bool, str | None], ...] = (
    (i32, [0, 4, 2], False, None),
    (i32, [0, 5, -1], False, r"index 5 at place 1 of \[N\] is outside of axis 0 .* 0 to 4; mend"),
    (i32, [-1, 0], False, "index -1 at place 0"),
    (i32, [-5, 4], True, None),
    (i64, [0, 0, -6, 5], True, "index -6 at place 2 of .* which has -5 to 4"),
    (i64, [2**40], False, "index 1099511627776 at place 0"),
    (ui8, [4, 200], True, "index 200 at place 1 of .* which has 0 to 4"),
    (ui64, [2**64 - 1], False, "index 18446744073709551615 at place 0"),
)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_playback_and_reports_name_the_index(number: int) -> None:
    element, indices, from_end, said = CASES[number]
    module = rows(element, from_end=from_end)
    inputs = [X, np.asarray(indices, dtype_of(element))]
    sizes = {"V": 5, "N": len(indices)}
    quiet = run(graph_in(rows(element, from_end=from_end, trap=False)), inputs, sizes)[0]
    reports = traps(graph_in(module))
    if said is None:
        run(graph_in(module), inputs, sizes)
    else:
        with pytest.raises(PolycError, match=said) as caught:
            run(graph_in(module), inputs, sizes)
        assert caught.value.kind == "IndexOutside"
    FrontendCheckIndices().apply(make_context(), module)
    module.verify()
    found, record = run(graph_in(module), inputs, sizes)
    np.testing.assert_array_equal(found, quiet)
    error = first_error(reports, [record.tolist()])
    assert (error is None) == (said is None)


@pytest.mark.turns(1)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_kernels_report_what_playback_reports(number: int) -> None:
    """And no finding says that one of them reads what is not the tensor's."""
    element, indices, from_end, _ = CASES[number]
    module = rows(element, from_end=from_end)
    inputs = [X, np.asarray(indices, dtype_of(element))]
    sizes = {"V": 5, "N": len(indices)}
    FrontendCheckIndices().apply(make_context(), module)
    wanted = run(graph_in(module), inputs, sizes)
    result = simulate(gpu_module_of(lowered(module, "sm_90a", "gpu")), inputs, sizes)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], wanted[0])
    assert result.outputs[1].tolist() == wanted[1].tolist()


def tuples(kind: str, trap: bool = True) -> ModuleOp:
    s = Sketch("f", f32)
    x, i = s.input("x", "B", "V", 3), s.input("i", "B", "N", 2, element=i64)
    if kind == "gather":
        return s.done(y=s.add(frontend.GatherNdOp(x, i, 1, 0.5, trap=trap)))
    u = s.input("u", "B", "N")
    return s.done(y=s.add(frontend.ScatterNdOp("add", x, i, u, 1, trap=trap)))


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_each_number_of_a_tuple_is_trapped(kind: str) -> None:
    x = np.zeros((2, 4, 3), np.float32)
    i = np.zeros((2, 2, 2), np.int64)
    i[1, 0] = 3, 2
    more = [np.ones((2, 2), np.float32)] if kind == "scatter" else []
    sizes = {"B": 2, "V": 4, "N": 2}
    module = tuples(kind)
    run(graph_in(module), [x, i, *more], sizes)
    i[1, 1] = 0, 3
    what = f"index 3 at place 3 of .*, number 1 of its tuple is outside of axis 2 .*{kind}_nd"
    with pytest.raises(PolycError, match=what):
        run(graph_in(module), [x, i, *more], sizes)
    reports = traps(graph_in(module))
    FrontendCheckIndices().apply(make_context(), module)
    records = [r.tolist() for r in run(graph_in(module), [x, i, *more], sizes)[1:]]
    assert records == [[-1, 0, 4], [3, 3, 3]]
    assert first_error(reports, records) is not None


@pytest.mark.turns(2)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_all_layers_agree_on_reports(count: int) -> None:
    for module in (rows(i32), tuples("scatter")):
        FrontendCheckIndices().apply(make_context(), module)
        sizes = {"V": 4, "N": count, "B": 2}
        assert layers.failure(RandomProgram(module, sizes), count) is None


def test_an_axis_without_elements_has_no_place() -> None:
    module = rows(i32)
    with pytest.raises(PolycError, match=r"index 0 at place 0 of .* which has no elements"):
        run(graph_in(module), [X[:0], np.zeros(1, np.int32)], {"V": 0, "N": 1})


def test_what_does_not_trap_stays() -> None:
    module = rows(i32, trap=False)
    before = str(module)
    assert not rewrite(module, [ReportIndices()])
    assert str(module) == before


class Read:
    """A program's outputs, in the place of a GPU's."""

    def __init__(self, found: list[Array]) -> None:
        self.found = found

    def __call__(self, *_: object) -> list[object]:
        return list(self.found)


def test_a_debug_build_raises_what_a_report_says(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load(rows(i32), "sm_90a", debug=True)
    assert len(program.traps) == 1 and program.names[-1] == "trap0"
    assert all(info.spill_bytes == 0 for info in program.kernels.values())
    y = np.zeros((2, 3), np.float32)
    monkeypatch.setattr(program, "_run", Read([y, np.asarray([-1, 0, 5])]))
    assert program.run([X, np.zeros(2, np.int32)]) == [y]
    monkeypatch.setattr(program, "_run", Read([y, np.asarray([1, 7, 5])]))
    with pytest.raises(PolycError, match="index 7 at place 1"):
        program.run([X, np.zeros(2, np.int32)])


def test_a_debug_build_is_of_a_graph(tmp_path: Any) -> None:
    tiles = tmp_path / "tiles.py"
    tiles.write_text("")
    with pytest.raises(PolycError, match=r"debug is about a frontend\.graph, not tiles"):
        load(str(tiles), "sm_90a", debug=True)
