"""In which order of axes lies what is stored around convolutions of graphs in NCHW (S10, S11.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.lowering.index_to_region import BOUNDARY
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.model_programs import conv
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.tools.play import play


class Images(Sketch):
    """Graphs of images [N, C, H, W]."""

    def image(self, channels: int, size: int = 14, name: str = "x", images: int = 2) -> SSAValue:
        return self.input(name, images, channels, size, size)

    def convolved(
        self, x: SSAValue, name: str, filters: int, taps: int, step: int = 1, relu: bool = True
    ) -> SSAValue:
        made = self.fn("add", conv(self, x, name, filters, taps, step, layout="nchw"), self.bias(x))
        return self.fn("relu", made) if relu else made

    def bias(self, x: SSAValue) -> SSAValue:
        """A number."""
        return self.number(0.5)

    def normed(self, x: SSAValue, groups: int = 4) -> SSAValue:
        """A GroupNorm without weights, and SiLU."""
        n, c, h, w = tensor_of(x).dims
        parts = self.reshape(x, n, groups, Dim.const((c.constant() or 0) // groups), h, w)
        off = self.fn("sub", parts, self.reduce("mean", parts, 2, 3, 4, keep=True))
        spread = self.reduce("mean", self.fn("mul", off, off), 2, 3, 4, keep=True)
        scale = self.fn("rsqrt", self.fn("add", spread, self.number(1e-5)))
        return self.fn("silu", self.reshape(self.fn("mul", off, scale), n, c, h, w))


def bottleneck() -> ModuleOp:
    s = Images("bottleneck")
    x = s.image(64)
    y = s.convolved(s.convolved(x, "w0", 32, 1), "w1", 32, 3)
    return s.done(y=s.fn("relu", s.fn("add", s.convolved(y, "w2", 64, 1, relu=False), x)))


def downsampling() -> ModuleOp:
    s = Images("downsampling")
    x = s.image(64)
    y = s.convolved(s.convolved(x, "w0", 32, 1), "w1", 32, 3, 2)
    y = s.convolved(y, "w2", 128, 1, relu=False)
    return s.done(y=s.fn("add", y, s.convolved(x, "w3", 128, 1, 2, relu=False)))


def basic() -> ModuleOp:
    s = Images("basic")
    x = s.image(32)
    y = s.convolved(s.convolved(x, "w0", 32, 3), "w1", 32, 3, relu=False)
    return s.done(y=s.fn("relu", s.fn("add", y, x)))


def normed() -> ModuleOp:
    s = Images("normed")
    x = s.image(32)
    y = s.convolved(s.normed(x), "w0", 32, 3, relu=False)
    return s.done(y=s.fn("add", s.convolved(s.normed(y), "w1", 32, 3, relu=False), x))


def joined() -> ModuleOp:
    s = Images("joined")
    x, u = s.image(32), s.image(64, name="u")
    return s.done(y=s.convolved(s.concat(1, u, s.convolved(x, "w0", 64, 3)), "w1", 32, 3))


def headed() -> ModuleOp:
    s = Images("headed")
    y = s.convolved(s.image(32), "w0", 64, 3)
    return s.done(y=s.linear(s.reduce("mean", y, 2, 3), "w1", 16), pixels=s.reduce("max", y, 1))


GRAPHS: Sequence[Callable[[], ModuleOp]] = (
    bottleneck,
    downsampling,
    basic,
    normed,
    joined,
    headed,
)


def kernels(module: ModuleOp) -> list[KernelOp]:
    return find(run(module, "region"), KernelOp)


def shapes(made: Sequence[KernelOp]) -> list[list[int | None]]:
    """The sizes of what each kernel stores."""
    return [[size.constant() for size in k.outs.data[0].shape] for k in made]


def reasons(made: Sequence[KernelOp]) -> list[str]:
    found = (a.data.get(BOUNDARY) for k in made for a in k.res_attrs)
    return [a.data for a in found if isinstance(a, StringAttr)]


def test_a_chain_changes_its_layout_where_it_begins_and_ends() -> None:
    """The first product reads [N, C, H, W], and the last one writes it: nothing is copied but the
    filter of more than one tap."""
    made = kernels(bottleneck())
    assert sorted(shapes(made)) == [
        [2, 14, 14, 32],
        [2, 64, 196],
        [2, 196, 32],
        [32, 9, 32],
    ]
    order = "its axes lie in the order [0, 2, 3, 1], pixels outside and channels inside"
    assert sum(order in why for why in reasons(made)) == 2


def test_what_others_share_lies_as_the_graph_has_it_where_that_takes_less() -> None:
    """A mean of pixels and a maximum of channels read what a convolution stores."""
    made = kernels(headed())
    assert any("its axes lie as the graph has them: the kernels" in why for why in reasons(made))


def test_a_residual_of_the_graphs_order_stays_with_its_convolution() -> None:
    """Pixels that lie first would part them: the last convolution stores its output, with x."""
    made = kernels(normed())
    last = made[-1]
    assert shapes([last]) == [[2, 32, 14, 14]]
    assert any(op.fn.data == "sum" for op in find(last, ReduceOp))
    assert "x" in [a.name_hint for a in last.body.block.args]


def test_what_a_step_skips_is_not_copied() -> None:
    """Of a filter of one tap with a step the pixels that it reads are stored, and the filter, whose
    axes of one point alone change places, is read where it lies."""
    s = Images("skipping")
    copy, product = kernels(s.done(y=s.convolved(s.image(64), "w", 256, 1, 2)))
    assert [a.name_hint for a in copy.body.block.args] == ["x"]
    assert [size.constant() for size in copy.outs.data[0].shape if size != Dim.const(1)] == [
        *(2, 7, 7, 64)
    ]
    assert "w" in [a.name_hint for a in product.body.block.args]


@pytest.mark.parametrize(("size", "copied"), [(14, True), (16, False)])
def test_an_input_is_copied_where_a_product_takes_its_lines_slowly(size: int, copied: bool) -> None:
    """Lines of 14 by 14 pixels are no multiple of 16 bytes, which TMA takes."""
    s = Images("lines")
    y = s.convolved(s.image(1024, size, images=32), "w0", 256, 1)
    made = kernels(s.done(y=s.convolved(y, "w1", 256, 3)))
    names = [[a.name_hint for a in k.body.block.args] for k in made]
    assert (["x"] in names) == copied


@pytest.mark.parametrize("graph", GRAPHS)
def test_values_are_what_the_graph_means(graph: Callable[[], ModuleOp]) -> None:
    module = graph()
    inputs = make_inputs(only(module, GraphOp), {}, 4)
    wanted = meant(module, inputs, {})
    found = play(run(module, "region"), module_name(module), inputs, {})
    assert found is not None
    assert_agree(found, wanted)


def module_name(module: ModuleOp) -> str:
    return only(module, GraphOp).sym_name.data


def stage() -> ModuleOp:
    """Bottlenecks one after another, whose residuals are of one size."""
    s = Images("stage")
    x = s.convolved(s.image(64, 14, images=1), "first", 1024, 1)
    for number in range(3):
        y = s.convolved(x, f"a{number}", 256, 1)
        y = s.convolved(y, f"b{number}", 256, 3)
        x = s.fn("relu", s.fn("add", s.convolved(y, f"c{number}", 1024, 1, relu=False), x))
    return s.done(y=s.reduce("mean", x, 2, 3))


def test_residuals_of_one_size_lie_pixels_first_together() -> None:
    """None of them gains by itself."""
    ends = [
        str(attrs.data[BOUNDARY])
        for kernel in kernels(stage())
        for attrs, out in zip(kernel.res_attrs, kernel.outs, strict=True)
        if BOUNDARY in attrs.data and out.shape[-1].constant() == 1024
    ]
    assert len(ends) == 3 and any("with all of its sizes" in end for end in ends)


def test_what_is_stored_in_another_shape_is_no_copy() -> None:
    """A GroupNorm of one image reads its groups where the image lies."""
    s = Images("groups")
    module = s.done(y=s.normed(s.image(320, 64, images=1), 32))
    for kernel in kernels(module):
        made = [op.name for op in kernel.body.block.ops]
        assert set(made) - {"region.read", "region.cast", "region.yield", "region.broadcast_in_dim"}
