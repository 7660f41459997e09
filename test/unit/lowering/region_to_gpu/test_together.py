"""Reductions that one loop has together, and those that a block leaves out: what is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, f16, f32

from polyc.dialects import frontend
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of
from polyc.test.unit.families.loops.test_lines import lowered


def columns() -> ModuleOp:
    """A sum, a maximum and a minimum of columns, whose points threads part."""
    s = Sketch("f", f32)
    x = s.input("x", 3, 70, 33)
    return s.done(**{name: s.reduce(name, x, 1) for name in ("sum", "max", "min")})


def halves() -> ModuleOp:
    """The same of halves, two columns a thread."""
    s = Sketch("f", f16)
    x = s.input("x", 3, 70, 64)
    return s.done(y=s.fn("sub", s.reduce("max", x, 1), s.reduce("min", x, 1)))


def apart() -> ModuleOp:
    """A quotient of sums that have weights in common, which are sums themselves."""
    s = Sketch("f", f32)
    x, c, v = s.input("x", 2, 3, 9, 40), s.input("c", 2, 3, 1, 40), s.input("v", 2, 5, 9, 40)
    far = s.fn("sub", x, c)
    weight = s.fn("exp", s.fn("neg", s.reduce("sum", s.fn("mul", far, far), 1, keep=True)))
    over = s.reduce("sum", s.fn("mul", weight, v), 2)
    return s.done(y=s.fn("div", over, s.reduce("sum", weight, 2)))


def joined(channels: int = 3) -> ModuleOp:
    """Pools of an image one behind the other; of few channels a tile has lines of several."""
    s = Sketch("f", f32)
    x = s.input("x", 2, channels, 9, 9)
    pools = [
        s.add(frontend.PoolOp(name, x, [2, 3], [3, 3], stride=[2, 2])) for name in ("mean", "max")
    ]
    return s.done(y=s.concat(1, *pools))


MADE: dict[str, Callable[[], ModuleOp]] = {
    "columns": columns,
    "halves": halves,
    "apart": apart,
    "joined": joined,
    "joined, many": partial(joined, 100),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", MADE)
def test_kernels_compute_what_the_graph_means(name: str, arch: str) -> None:
    module = MADE[name]()
    inputs, wanted = wanted_of(module, {})
    built = lowered(module, "gpu", arch=arch)
    for variant in gpu_module_of(built).dispatch().variants():
        found = simulate(
            gpu_module_of(built), inputs, {}, variant.variant_name, schedule="random", seed=1
        )
        found.check()
        assert_agree(found.outputs, wanted)
    assert all(info.spill_bytes == 0 for info in Program.compile(built).kernels.values())


def test_columns_are_walked_once() -> None:
    """One map reads a step, for all three."""
    kernels = find(lowered(columns(), "tiles"), gpu.KernelOp)
    for kernel in kernels:
        maps = [op for op in kernel.walk() if isinstance(op, tile.MapOp)]
        assert [len(op.outputs) for op in maps] == [3, 3]  # of a step, and of the results


def test_parts_of_a_concat_are_left_out_by_blocks_that_have_none() -> None:
    for kernel in find(lowered(joined(100), "tiles"), gpu.KernelOp):
        chosen = [op for op in kernel.walk() if isinstance(op, scf.IfOp)]
        assert len(chosen) == 2 and all(find(op, tile.MapOp) for op in chosen)
