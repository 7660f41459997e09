"""Copies of operands ahead of a product's kernels: their kernels, launches and workspaces (S9)."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu.launches import SequenceOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.region_to_gpu.padded import Padded
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import batched, run
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def chain() -> ModuleOp:
    """Two products, of which the second one takes what the first one gives."""
    s = Sketch("chain")
    first = s.linear(s.input("x", "M", "K"), "a", "L")
    return s.done(y=s.linear(s.fn("relu", first), "b", "N"))


def test_a_copy_has_rows_of_whole_panels_and_all_other_axes_are_rows() -> None:
    module = run(batched(), "plan")
    region = only(module, KernelOp)
    plan = next(p for p in find(module, ScheduleOp) if p.variant.data == "padded")
    copy = Padded.of(region, 0)
    assert [str(size) for size in copy.matrix] == ["B * M", "K"]
    assert (copy.space.name, copy.space.copies) == ("batched_padded_x", 0)
    assert str(copy.kind.dims[-1]) == "64 * ((K + 63) floordiv 64)"
    launch = copy.launch(plan.when, [2, 2, 16])
    assert (launch.kernel_name, launch.fills_name) == (copy.name, copy.space.name)
    assert [str(size) for size in launch.grid.data] == [
        "(B * M + 15) floordiv 16",
        "(K + 255) floordiv 256",
    ]


def test_the_copies_of_a_graph_run_when_what_they_copy_is_there() -> None:
    """The second product's rows are another workspace, written by the first product's launch."""
    sizes = {"M": 3, "K": 131, "L": 135, "N": 5}
    module = parse_text(make_context(), str(chain()), "chain.mlir")
    kernels = gpu_module_of(run(chain(), "gpu"))
    variant = next(
        v
        for v in kernels.dispatch().variants()
        if isinstance(v, SequenceOp) and sum(op.fills is not None for op in v.launches()) == 4
        if all(fact.holds(sizes) for fact in v.when.data)
    )
    inputs = make_inputs(only(module, GraphOp), sizes, 4)
    found = simulate(kernels, inputs, sizes, variant.variant_name, "random", seed=1)
    found.check()
    assert_agree(found.outputs, meant(module, inputs, sizes), "chain")
    copies = {op.sym_name.data: op.copies for op in variant.workspaces() if op.copies is not None}
    assert [c.tensor_index for c in copies.values()].count(None) == 1
    order = [name for name, _ in found.launches]
    (between,) = (name for name, c in copies.items() if c.tensor_index is None)
    first, *_, last = (op.kernel_name for op in variant.launches() if op.fills is None)
    assert order.index(first) < order.index(between) < order.index(last)
