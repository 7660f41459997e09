"""Kernels of few results made of several long reductions, and what is found in one pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, f32, i64

from polyc.cost.time import times_of
from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import ReduceOp, ReduceTogetherOp
from polyc.families.loops.recognise import find_loops, steps_of, type_of
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.unit.lowering.index_to_region.test_reductions import kernels, planned
from polyc.tools.play import play


def losses() -> ModuleOp:
    """Two sums of tensors of other sizes, added up: a loss of two terms."""
    s = Sketch("losses")
    first = s.reduce("sum", s.fn("abs", s.input("x", 4096, 512)), 0, 1)
    second = s.reduce("mean", s.input("y", 64, 1024), 0, 1)
    return s.done(z=s.fn("add", first, second))


def overlaps() -> ModuleOp:
    """Of each class a quotient of sums over all pixels, and the mean of these: a dice loss."""
    s = Sketch("overlaps")
    x, y = (s.input(name, 8, 4, 4096) for name in "xy")
    both = s.reduce("sum", s.fn("mul", x, y), 0, 2)
    one, other = (s.reduce("sum", v, 0, 2) for v in (x, y))
    return s.done(z=s.reduce("mean", s.fn("div", both, s.fn("add", one, other)), 0))


@pytest.mark.parametrize("make", [losses, overlaps], ids=lambda f: f.__name__)
def test_a_number_of_several_long_reductions_is_no_single_blocks_work(
    make: Callable[[], ModuleOp],
) -> None:
    module = make()
    found = planned(module)
    for kernel in kernels(found):
        assert steps_of(find_loops(kernel).expanded).nested is None
    assert sum(time.seconds for time in times_of(found, {})) < 20e-6
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, {}, 1)
    played = play(planned(module, until="region"), graph.sym_name.data, inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))


def test_sums_of_rows_and_of_columns_are_added_up_behind_a_product() -> None:
    """As distances by products have them: no sum of both, as large as the product, is stored."""
    s = Sketch("distances")
    x, y = s.input("x", 4096, 64), s.input("y", 512, 64)
    rows, columns = (s.reduce("sum", s.fn("mul", v, v), 1) for v in (x, y))
    wide = s.fn("add", s.reshape(rows, 4096, 1), s.reshape(columns, 1, 512))
    found = planned(s.done(z=s.fn("sub", wide, s.gemm(x, s.permute(y, 1, 0)))))
    sizes = [out.shape for kernel in kernels(found) for out in kernel.outs]
    assert sizes.count((Dim.const(4096), Dim.const(512))) == 1


def test_long_rows_are_read_once_for_their_maximum_and_the_sum_below_it() -> None:
    """Where a scan wants both, whose kernel reduces nothing: no block keeps such a row."""
    s, length = Sketch("powers", f32), 1 << 15
    x = s.input("x", 40, length)
    top = s.reduce("max", x, 1, keep=True)
    total = s.reduce("sum", s.fn("exp", s.fn("sub", x, top)), 1, keep=True)
    wide = s.fn("div", s.fn("exp", s.fn("sub", x, top)), total)
    taken = s.add(frontend.GatherElementsOp(wide, s.input("i", 40, 1, element=i64), 1))
    running = s.add(frontend.ScanOp("sum", taken, 0))
    module = s.done(y=running, z=s.reduce("sum", s.fn("max", wide, s.number(0.01)), 1))
    found = planned(module)
    reductions = {
        kernel: [op for op in kernel.walk() if isinstance(op, ReduceOp | ReduceTogetherOp)]
        for kernel in kernels(found)
    }
    long = [
        kernel
        for kernel, ops in reductions.items()
        if any(a.size == Dim.const(length) for op in ops for a in type_of(op.operands[0]).axes)
    ]
    assert [len(kernel.outs) for kernel in long] == [2, 1]
    inputs = list(make_inputs(only(module, frontend.GraphOp), {}, 1))
    inputs[1] = inputs[1] % length
    played = play(planned(module, until="region"), "powers", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))
