"""What a kernel's values are over, and by whose points they are gone through."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, f16, i64

from polyc.cost.device import DEVICES
from polyc.cost.values import PLACE, Values, operations
from polyc.cost.work import compulsory
from polyc.dialects import frontend
from polyc.dialects.region import GatherOp, KernelOp, ReadOp
from polyc.test.support.gpu_text import only
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch


def rows() -> ModuleOp:
    s = Sketch("rows", f16)
    table, at = s.input("table", "V", "D"), s.input("at", "N", element=i64)
    return s.done(y=s.add(frontend.GatherOp(table, at, 0)))


def of(rows_there: int, count: int) -> Values:
    kernel = only(lowered(rows(), "sm_90a", "region"), KernelOp)
    return Values(kernel, {"V": rows_there, "D": 8, "N": count})


def test_an_axis_at_indices_is_gone_through_by_theirs() -> None:
    values = of(1000, 4)
    (gather,) = (op for op in values.kernel.walk() if isinstance(op, GatherOp))
    (label,) = gather.labels
    assert values.own(gather.operand) == {label, "d"} and values.own(gather.result) == {"n", "d"}
    assert values.walked({label, "d"}) == {"n", "d"} and values.walked({"d"}) == {"d"}
    assert values.points(values.walked({label, "d"})) == 32
    assert operations(gather) == PLACE


def test_an_index_at_indices_is_gone_through_by_the_last_ones() -> None:
    s = Sketch("chain", f16)
    x, i, j = s.input("x", "V"), s.input("i", "K", element=i64), s.input("j", "N", element=i64)
    found = s.add(frontend.GatherOp(x, s.add(frontend.GatherOp(i, j, 0)), 0))
    kernel = only(lowered(s.done(y=found), "sm_90a", "region"), KernelOp)
    values = Values(kernel, {"V": 9, "K": 5, "N": 3})
    reads = [op for op in kernel.walk() if isinstance(op, ReadOp)]
    assert [values.walked(values.own(op.result)) for op in reads] == [{"n"}] * 3


def test_a_table_costs_what_is_read_of_it() -> None:
    device = next(iter(DEVICES.values()))
    few, many = (compulsory(of(n, 4), device) for n in (1000, 1_000_000))
    assert few == many
    assert compulsory(of(1000, 40), device) > few
