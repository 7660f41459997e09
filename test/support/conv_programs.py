"""Convolutions as graphs, for what is asked of their kernels at each level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.convolution import Convolution
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import conditions, schedule_fields
from polyc.families.conv.variants import merged_of, variant_of
from polyc.families.family import fitted
from polyc.families.space import Tiling
from polyc.passes.pipeline import STAGES, build
from polyc.test.support.gemm_programs import tensor
from polyc.test.support.gpu_text import only
from polyc.tools.registry import make_context

Shape = tuple[str | int, ...]


@dataclass(frozen=True)
class Conv:
    """``Y = conv(X, G)``, NHWC, and what comes after it; where it is ``turned``, of Y in NCHW.

    ``more`` are tensors ``(shape, function)`` that the result is combined with, one by one; X is
    taken for the shape ``("X",)``.  X is in NCHW where it lies in ``planes``.
    """

    geometry: Im2colAttr
    x: Shape = ("N", "H", "W", "C")
    filters: str | int = "F"
    more: tuple[tuple[Shape, str], ...] = ()
    after: tuple[str, ...] = ()
    out: str = "f16"
    element: str = "f16"
    assuming: str = ""
    turned: bool = False
    planes: bool = False
    precision: str = ""

    @property
    def y(self) -> Shape:
        """The output's sizes."""
        images, *pixels, filters = self.made
        return (images, filters, *pixels) if self.turned else (images, *pixels, filters)

    @property
    def made(self) -> Shape:
        """The sizes of what the convolution gives."""
        images, height, width, _ = (Dim.of(size) for size in self.x)
        rows, columns = self.geometry.output_dims(height, width)
        return (str(images), str(rows), str(columns), self.filters)

    @property
    def text(self) -> str:
        g = self.geometry
        x, y = tensor(self.x, self.element), tensor(self.y, self.out)
        w = tensor((self.filters, *g.taps, self.x[3]), self.element)
        images, height, width, channels = self.x
        planes = tensor((images, channels, height, width), self.element)
        inputs = [f"%X: {planes if self.planes else x}", f"%G: {w}"]
        inputs += [
            f"%x{i}: {tensor(shape, self.element)}"
            for i, (shape, _) in enumerate(self.more)
            if shape != ("X",)
        ]
        padding = [p for pair in zip(g.pads, g.pads_after, strict=True) for p in pair]
        made, first = tensor(self.made, self.out), "%c" if self.turned else "%p0"
        said = f', precision = "{self.precision}"' if self.precision else ""
        image, lines = "%X", list[str]()
        if self.planes:
            image = "%image"
            lines = [f"%image = frontend.permute %X perm [0, 2, 3, 1] : {planes} -> {x}"]
        lines += [
            f"{first} = frontend.conv2d nhwc {image}, %G stride {list(g.steps)} padding {padding} "
            f"dilation {list(g.dilations)} groups 1 {{acc = f32{said}}} : "
            f"({x}, {w}) -> {made}"
        ]
        if self.turned:
            lines.append(f"%p0 = frontend.permute %c perm [0, 3, 1, 2] : {made} -> {y}")
        for i, (shape, fn) in enumerate(self.more):
            other, kind = ("%X", x) if shape == ("X",) else (f"%x{i}", tensor(shape, self.element))
            lines.append(
                f"%p{i + 1} = frontend.elementwise {fn} %p{i}, {other} : ({y}, {kind}) -> {y}"
            )
        last = len(self.more)
        for i, fn in enumerate(self.after, last):
            lines.append(f"%p{i + 1} = frontend.elementwise {fn} %p{i} : {y}")
        lines.append(f"frontend.output %p{last + len(self.after)} : {y}")
        body, arguments = "\n  ".join(lines), ", ".join(inputs)
        facts = f" assuming ({self.assuming})" if self.assuming else ""
        return f"frontend.graph @g({arguments}) -> (Y: {y}){facts} {{\n  {body}\n}}\n"


def of(
    kernel: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    after: Sequence[int] | None = None,
) -> Conv:
    """A convolution of a geometry, every size a symbol."""
    return Conv(Im2colAttr.of(kernel, strides, padding, dilation, after))


def scheduled(conv: Convolution, plan: Tiling, merged: bool = False) -> ScheduleOp:
    """A plan of the space for a convolution, as the compiler writes it; of ``merged`` pixels."""
    variant = merged_of(conv, plan) if merged else variant_of(plan, ())
    when = conditions(conv, variant)
    assert when is not None
    return fitted("g", variant.name, schedule_fields(conv, "sm_90a", variant), when)


def under(
    module: ModuleOp, plan: Tiling, until: Literal["tiles", "gpu"] = "gpu", merged: bool = False
) -> ModuleOp:
    """A region with a plan of the space alone, lowered."""
    ctx = make_context()
    kernel = only(module, KernelOp)
    block = kernel.parent_block()
    assert block is not None
    block.insert_op_after(scheduled(find_convolution(kernel), plan, merged), kernel)
    following = [*STAGES["plan"][1:], *STAGES["tiles"], *(STAGES["gpu"] if until == "gpu" else ())]
    for name in following:
        build(name, "sm_90a").apply(ctx, module)
    return module
