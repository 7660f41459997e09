"""Products of matrices as graphs, and what is asked of their kernels at each level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import module as gpu
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text
from polyc.tools.play import play, programs
from polyc.tools.registry import make_context

ABOVE = ABOVE_GPU[: ABOVE_GPU.index("region-merge-axes")]


def tensor(shape: Sequence[str | int], element: str = "f16") -> str:
    return f"!frontend.tensor<[{', '.join(map(str, shape))}], {element}>"


@dataclass(frozen=True)
class Product:
    """``C = A · B`` with batches, and what comes after it.

    ``more`` are tensors ``(shape, function)`` that the product is combined with, one by one.
    """

    a: tuple[str | int, ...]
    b: tuple[str | int, ...]
    c: tuple[str | int, ...]
    flags: tuple[str, ...] = ()
    more: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    out: str = "f16"

    @property
    def text(self) -> str:
        a, b, c = tensor(self.a), tensor(self.b), tensor(self.c, self.out)
        inputs = [f"%A: {a}", f"%B: {b}"]
        inputs += [f"%x{i}: {tensor(shape)}" for i, (shape, _) in enumerate(self.more)]
        attributes = ", ".join(("acc = f32", *self.flags))
        lines = [f"%p0 = frontend.gemm %A, %B {{{attributes}}} : ({a}, {b}) -> {c}"]
        for i, (shape, fn) in enumerate(self.more):
            types = f"({c}, {tensor(shape)}) -> {c}"
            lines.append(f"%p{i + 1} = frontend.elementwise {fn} %p{i}, %x{i} : {types}")
        lines.append(f"frontend.output %p{len(self.more)} : {c}")
        body = "\n  ".join(lines)
        return f"frontend.graph @g({', '.join(inputs)}) -> (C: {c}) {{\n  {body}\n}}\n"


def one_tap(x: str, w: tuple[str | int, ...], y: str, layout: str) -> str:
    """A convolution of one tap; ``x`` and ``y`` have a letter for each axis."""
    a, b, c = tensor(tuple(x)), tensor(w), tensor(tuple(y))
    return f"""frontend.graph @g(%X: {a}, %W: {b}) -> (Y: {c}) {{
  %0 = frontend.conv2d {layout} %X, %W stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1
      {{acc = f32}} : ({a}, {b}) -> {c}
  frontend.output %0 : {c}
}}
"""


def regions(text: str) -> ModuleOp:
    """The regions of a graph, as ``region-merge-axes`` meets them."""
    ctx = make_context()
    module = parse_text(ctx, text, "t.mlir")
    for name in ABOVE:
        build(name, "").apply(ctx, module)
    verify(module)
    return module


def tiles(
    module: ModuleOp,
    arch: str,
    plan: str | None = None,
    leave: Callable[[ModuleOp], None] | None = None,
) -> gpu.ModuleOp:
    """The kernels of regions, as tiles; ``leave`` takes schedules away that a test is not about."""
    ctx, copy = make_context(), module.clone()
    for name in ("plan-select", "region-to-gpu"):
        build(name, arch, plan).apply(ctx, copy)
        if name == "plan-select" and leave is not None:
            leave(copy)
        verify(copy)
    return gpu_module_of(copy)


def inputs_of(module: ModuleOp, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """Small integers, of which every sum is exact in f32 whatever its order."""
    rng = np.random.default_rng(seed)
    (program,) = programs(module)
    kinds = {"f16": np.float16, "f32": np.float32}
    found: list[Any] = []
    for spec in program.inputs:
        shape = [size.evaluate(sizes) for size in spec.type.dims]
        found.append(rng.integers(-2, 3, shape).astype(kinds[str(spec.type.element_type)]))
    return found


def runnable(kernels: gpu.ModuleOp, sizes: Mapping[str, int]) -> list[str]:
    """The variants whose conditions hold at these sizes."""
    variants = kernels.dispatch().variants()
    return [v.variant_name for v in variants if all(f.holds(sizes) for f in v.facts.data)]


def assert_tiles_agree(text: str, arch: str, sizes: Mapping[str, int]) -> list[str]:
    """Every variant that takes ``sizes`` gives to the bit what the regions give; their names.

    ``text`` is a graph, or a region.
    """
    module = regions(text)
    kernels = tiles(module, arch)
    inputs = inputs_of(module, sizes)
    (program,) = programs(module)
    wanted = play(module, program.sym_name.data, inputs, sizes)
    assert wanted is not None
    ran = runnable(kernels, sizes)
    for variant in ran:
        found = tile.run(kernels, inputs, sizes, variant)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
    return ran


def sum_of_products(a: str, b: str, out: str, summed: str, stored: str | None = None) -> str:
    """A region that sums ``A * B`` over the axes ``summed``; each letter is an axis.

    ``a`` and ``b`` are how the factors are stored, ``out`` is how the sum's axes follow one
    another, and ``stored`` how the output has them, where that is not the same.
    """
    order = out + summed

    def val(letters: str, element: str = "f32") -> str:
        return f"!region.val<[{', '.join(f'{x}: {x.upper()}' for x in letters)}], {element}>"

    def memref(letters: str) -> str:
        return f"!region.memref<[{', '.join(letters.upper())}], f16, align 16>"

    symbols = list(dict.fromkeys(a + b + (stored or out)))
    lines: list[str] = []
    for name, letters in (("a", a), ("b", b)):
        dims = ", ".join(f"d{i}" for i in range(len(letters)))
        sizes = ", ".join(f"s{i}" for i in range(len(symbols)))
        places = ", ".join(str(order.index(x)) for x in letters)
        lines += [
            f"%{name} = region.read %{name.upper()} affine_map<({dims})[{sizes}] -> ({dims})> : "
            f"{memref(letters)} -> {val(letters, 'f16')}",
            f"%{name}f = region.cast %{name} : {val(letters, 'f16')} -> {val(letters)}",
            f"%{name}e = region.broadcast_in_dim %{name}f dims [{places}] : {val(letters)} -> "
            f"{val(order)}",
        ]
    lines += [
        f"%t = region.binary mul %ae, %be : {val(order)}",
        f"%acc = region.reduce sum %t over [{', '.join(summed)}] init 0.0 acc f32 "
        f'name "acc" : {val(order)} -> {val(out)}',
        f"%h = region.cast %acc : {val(out)} -> {val(out, 'f16')}",
    ]
    result = "%h"
    if stored is not None and stored != out:
        perm = ", ".join(str(out.index(x)) for x in stored)
        lines.append(
            f"%p = region.transpose %h perm [{perm}] : {val(out, 'f16')} -> {val(stored, 'f16')}"
        )
        result = "%p"
    stored = stored or out
    lines.append(f"region.yield {result} : {val(stored, 'f16')}")
    body = "\n  ".join(lines)
    iters = ", ".join(f"{x}: {x.upper()}" for x in stored)
    return f"""
region.kernel @g iters [{iters}] ins(%A: {memref(a)}, %B: {memref(b)})
    outs(C: {memref(stored)} gmem) {{
  {body}
}}
"""
