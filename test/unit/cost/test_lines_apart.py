"""What threads with several columns read a line for each of, and what leaves the cache again."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f32

from polyc.cost.device import H100
from polyc.cost.time import modelled
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Record
from polyc.dialects.region import KernelOp
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.schedules import schedules
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.sketch import Sketch
from polyc.test.unit.families.loops.test_lines import lowered


def weighed(slides: bool, taps: int = 9) -> KernelOp:
    """Sums of a line's neighbours, or of other lines, times a weight of each point."""
    place = "(d0, (d1 + d2))" if slides else "(d0, d2, d1)"
    x = "[512, 4104]" if slides else f"[512, {taps}, 4096]"
    kind = "!region.memref<{}, f32, align 16, noalias>"
    value = f"!region.val<[i: 512, j: 4096, r: {taps}], f32>"
    text = (
        "region.kernel @k iters [i: 512, j: 4096]\n"
        f"    ins(%x: {kind.format(x)}, %w: {kind.format('[512, 4096]')})\n"
        f"    outs(y: {kind.format('[512, 4096]')} gmem) {{\n"
        f"  %0 = region.read %x affine_map<(d0, d1, d2) -> {place}> : {kind.format(x)} -> {value}\n"
        f"  %1 = region.read %w affine_map<(d0, d1) -> (d0, d1)> : {kind.format('[512, 4096]')}"
        " -> !region.val<[i: 512, j: 4096], f32>\n"
        "  %2 = region.broadcast_in_dim %1 dims [0, 1] : "
        f"!region.val<[i: 512, j: 4096], f32> -> {value}\n"
        f"  %3 = region.binary mul %0, %2 : {value}\n"
        f'  %acc = region.reduce sum %3 over [r] init 0.0 acc f32 name "acc" : {value}'
        " -> !region.val<[i: 512, j: 4096], f32>\n"
        "  region.yield %acc : !region.val<[i: 512, j: 4096], f32>\n}\n"
    )
    return only(parsed(text), KernelOp)


@pytest.mark.parametrize("slides", [True, False])
def test_windows_along_the_columns_have_elements_of_these(slides: bool) -> None:
    """No vector begins at each of their points; of other lines one does."""
    plan, *_ = schedules(find_loops(weighed(slides)), "sm_90a")
    assert (plan.integer("vectorize") == 1) == slides


def rows_of_weights(points: int) -> ModuleOp:
    """Weights of each point, beside each other, times what lies in planes."""
    s = Sketch("f", f32)
    a, b = s.input("a", 64, 4096, points), s.input("b", 64, points, 4096)
    return s.done(y=s.reduce("sum", s.fn("mul", a, s.permute(b, 0, 2, 1)), 2))


def of_columns(module: ModuleOp, columns: int, vector: int) -> float:
    """The bytes of L2's time of a plan whose 256 threads have a tile of so many columns."""
    found = lowered(module, "plan")
    kernel, plan = (
        only(found, KernelOp),
        next(op for op in found.walk() if isinstance(op, ScheduleOp)),
    )
    fields = plan.fields()
    fields |= {"algo_choice": {"loops": "serial"}, "split_k": 1}
    fields |= {"tile": [1, columns, 1], "warp_tile": [1, columns // 8], "vectorize": vector}
    bound: Record = {"i0": "block.x", "i1.o": "block.x"}
    fields |= {"vectorize_axis": "i1.i.i", "bind": bound}
    return modelled(kernel, ScheduleOp(plan.region, "one", fields, ()), {}, H100).cache


def test_lines_of_many_threads_leave_the_cache() -> None:
    """25 elements a line: those of a thread's one line stay, and of four lines each step brings a
    sector again."""
    module = rows_of_weights(25)
    assert of_columns(module, 1024, 4) > 3 * of_columns(module, 256, 1)
    few = rows_of_weights(4)
    assert of_columns(few, 1024, 4) < 1.2 * of_columns(few, 256, 1)
