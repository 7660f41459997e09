"""Where outputs lie: beside others, and as views of what an attention stores (S6.6, S10.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import GraphOp, KernelOp
from polyc.dialects.region.types import AxisAttr, val_type
from polyc.lowering.index_to_region.forms import equal_casts
from polyc.lowering.index_to_region.outputs import embedded, turned_from
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import passed
from polyc.test.support.attention_spellings import Spelling
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.tools.play import play

TO_INDEX = ("frontend-to-tiny", "tiny-to-index")
M, N, H, B = (Dim.sym(name) for name in "MNHB")


def kernels(module: ModuleOp) -> list[KernelOp]:
    found = passed(str(module), *TO_INDEX, "index-to-region")
    return [op for op in found.body.block.ops if isinstance(op, KernelOp)]


# Smaller outputs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "places"),
    [
        (("B", "M"), (0, 1)),
        (("B", "H", "M"), (0, 2, 1)),
        (("B", "H", "M", 1), (0, 2, 1, None)),
        (("H", 1), (2, None)),
        (("M", "B", 64), (1, 0, 3)),
        ((), ()),
    ],
)
def test_a_smaller_output_lies_along_axes_of_its_sizes(
    sizes: tuple[Size, ...], places: tuple[int | None, ...]
) -> None:
    iters = [AxisAttr.of(f"i{i}", dim(s)) for i, s in enumerate(("B", "M", "H", 64))]
    found = embedded([dim(s) for s in sizes], iters)
    wanted = [AffineExpr.constant(0) if p is None else AffineDimExpr(p) for p in places]
    assert found is not None and list(found) == wanted


@pytest.mark.parametrize("sizes", [("B", "N"), ("B", "B"), (64, "H", "M", "B"), ("M", 32)])
def test_other_sizes_are_none_of_its_axes(sizes: tuple[Size, ...]) -> None:
    """Neither are those of an output as large as the kernel, whose rows it would cross."""
    iters = [AxisAttr.of(f"i{i}", dim(s)) for i, s in enumerate(("B", "M", "H", 64))]
    assert embedded([dim(s) for s in sizes], iters) is None


@pytest.mark.parametrize("layout", ["heads", "inside", "rows"])
def test_sums_beside_an_attention_come_of_its_kernel(layout: str) -> None:
    """They are [.., M, 1], as a reduction leaves them, wherever the heads lie in the output."""
    (kernel,) = kernels(Spelling(layout=layout, beside="lse", division="output").module())
    assert len(kernel.outs) == 2
    wide, narrow = (set(val_type(v).labels) for v in kernel.yield_op.values)
    assert narrow < wide


# Views ---------------------------------------------------------------------------------


def attended(s: Sketch) -> SSAValue:
    shapes = {"q": "M", "k": "N", "v": "N"}
    q, k, v = (s.input(name, "B", 4, size, 64) for name, size in shapes.items())
    weights = s.softmax(s.gemm(q, k, turned=True, element=f32))
    return s.gemm(s.cast(weights, s.element), v)


def merged(s: Sketch, y: SSAValue) -> SSAValue:
    return s.reshape(s.permute(y, 0, 2, 1, 3), "B", "M", 256)


def turned_twice(s: Sketch, y: SSAValue) -> SSAValue:
    return s.reshape(s.permute(s.permute(y, 1, 0, 2, 3), 2, 1, 0, 3), "M", "B", 256)


def in_front(s: Sketch, y: SSAValue) -> SSAValue:
    """Reshaped only: the heads are merged with the batch."""
    return s.reshape(y, B * 4, "M", 64)


def rows_of(made: Callable[[Sketch, SSAValue], SSAValue]) -> ModuleOp:
    s = Sketch("attention")
    return s.done(y=made(s, attended(s)))


SIZES = {"B": 2, "M": 5, "N": 7}


def assert_computed(module: ModuleOp) -> None:
    """The kernels compute what the graph means."""
    before = passed(str(module))
    inputs = make_inputs(only(before, frontend.GraphOp), SIZES, 3)
    found = play(passed(str(module), *TO_INDEX, "index-to-region"), "attention", inputs, SIZES)
    assert found is not None
    assert_agree(found, meant(before, inputs, SIZES))


@pytest.mark.parametrize("made", [merged, turned_twice, in_front], ids=lambda f: f.__name__)
def test_merged_heads_are_written_in_place(made: Callable[[Sketch, SSAValue], SSAValue]) -> None:
    """There is one kernel, whose output in memory is the graph's, and the numbers are its."""
    module = rows_of(made)
    (kernel,) = kernels(module)
    lowered = passed(str(module), *TO_INDEX, "index-to-region")
    assert len(kernel.outs) == 1
    assert [str(one) for one in only(lowered, GraphOp).sources] == ["@attention_0::@v0"]
    assert_computed(module)


def wanted_twice(s: Sketch, y: SSAValue) -> dict[str, SSAValue]:
    """What is in between is an output too."""
    turned = s.permute(y, 0, 2, 1, 3)
    return {"y": s.reshape(turned, "B", "M", 256), "z": turned}


def computed_on(s: Sketch, y: SSAValue) -> dict[str, SSAValue]:
    """The output is no view: a bias is added to it."""
    return {"y": s.fn("add", merged(s, y), s.input("bias", 256))}


def both_views(s: Sketch, y: SSAValue) -> dict[str, SSAValue]:
    """It cannot lie in two orders."""
    return {"y": merged(s, y), "z": s.permute(y, 2, 0, 1, 3)}


@pytest.mark.parametrize("made", [wanted_twice, computed_on, both_views], ids=lambda f: f.__name__)
def test_other_outputs_are_copied(
    made: Callable[[Sketch, SSAValue], dict[str, SSAValue]],
) -> None:
    s = Sketch("attention")
    module = s.done(**made(s, attended(s)))
    assert len(kernels(module)) > 1
    assert_computed(module)


def test_the_same_output_twice_is_written_and_copied() -> None:
    s = Sketch("attention")
    y = merged(s, attended(s))
    assert_computed(s.done(y=y, z=y))


def test_what_is_turned_says_its_order() -> None:
    """An output, what it is made of, and the axes of that as memory has them."""
    ctx = passed(str(rows_of(turned_twice)), *TO_INDEX)
    graph = only(ctx, tiny.GraphOp)
    last = graph.body.block.last_op
    assert isinstance(last, tiny.OutputOp)
    same = equal_casts(graph)
    found = turned_from(graph, same.get(last.args[0], last.args[0]), same)
    assert found is not None and found.order == (2, 0, 1, 3)
    assert tiny.tensor_of(found.source).dims == (B, Dim.const(4), M, Dim.const(64))
    assert turned_from(graph, found.source, same) is None
