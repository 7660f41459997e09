"""The types in which values lie in memory between kernels (S0.6)."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp, bf16, f16, f32, i1
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import tensor_of
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import MemRefType
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.cost import seconds_stored
from polyc.lowering.index_to_region.kernels import Fuse, Split
from polyc.lowering.index_to_region.memory import holds, stored_size, stored_type
from polyc.passes.pipeline import build
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import verify
from polyc.test.fuzz.layers import REFUSED, differs
from polyc.test.fuzz.models import inputs_of
from polyc.test.fuzz.random_models import drawn
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.model_programs import MODELS, conv
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

# One value -------------------------------------------------------------------------------

VALUES = """tiny.graph @f(%x: !tiny.tensor<[M, N], f32>, %c: !tiny.tensor<[M, N], i1>) -> !tiny.tensor<[M, N], f32> {
  %e = tiny.unary exp %x own f16 : !tiny.tensor<[M, N], f32>
  %r = tiny.reduce sum %x axes [0] own bf16 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
  %s = tiny.select %c, %x, %e own f16 : !tiny.tensor<[M, N], f32>
  %w = tiny.unary neg %x : !tiny.tensor<[M, N], f32>
  %p = tiny.compare lt %x, %e : !tiny.tensor<[M, N], f32>
  %n = tiny.cast %e : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
  %t = tiny.permute %e perm [1, 0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
  %a = tiny.pad %t low [0, 1] high [0, 0] value -inf : !tiny.tensor<[N, M], f32> -> !tiny.tensor<[N, M + 1], f32>
  %b = tiny.pad %t low [0, 1] high [0, 0] value 0.1 : !tiny.tensor<[N, M], f32> -> !tiny.tensor<[N, M + 1], f32>
  %m = tiny.permute %x perm [1, 0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
  %u = tiny.cast %n : !tiny.tensor<[M, N], f16> -> !tiny.tensor<[M, N], f32>
  %v = tiny.permute %u perm [1, 0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
  tiny.output %w : !tiny.tensor<[M, N], f32>
}"""  # noqa: E501


def test_what_a_value_is_stored_as() -> None:
    """What a pad adds has to be a number of the type; what is read from memory has its own."""
    module = parse_text(make_context(), VALUES, "values.mlir")
    verify(module)
    graph = only(module, tiny.GraphOp)
    found = {v.name_hint: stored_type(v) for op in graph.body.block.ops for v in op.results}
    # What was widened is as it was before, also where it is moved.
    narrow = dict.fromkeys("esntauv", f16)
    assert found == {**narrow, "r": bf16, "p": i1, **dict.fromkeys("wbm", f32)}
    values = {v.name_hint: v for op in graph.body.block.ops for v in op.results}
    assert [stored_size(values[name]) for name in "erwp"] == [2, 2, 4, 1]
    assert seconds_stored(values["w"], 2) == 2 * seconds_stored(values["e"], 2)


@pytest.mark.parametrize(
    ("kind", "number", "held"),
    [
        (f16, 0.1, False),
        (f16, -0.5, True),
        (f16, 1e6, False),
        (bf16, float("nan"), True),
        (bf16, 257.0, False),
        (f32, 257.0, True),
        (i1, 1.0, True),
        (i1, 0.5, False),
    ],
)
def test_what_a_type_holds(kind: Attribute, number: float, held: bool) -> None:
    assert holds(kind, number) == held


# Kernels -----------------------------------------------------------------------------------


def regions(module: ModuleOp, fuse: Fuse = "cost", split: Split = "none") -> ModuleOp:
    ctx = make_context()
    found = parse_text(ctx, str(module), "model.mlir")
    for name in ("frontend-to-tiny", "tiny-to-index"):
        build(name, "sm_80").apply(ctx, found)
    IndexToRegion(fuse, split).apply(Context(), found)
    verify(found)
    return found


def between(module: ModuleOp) -> list[MemRefType]:
    """What lies in memory between two kernels."""
    return [
        kind
        for kernel in module.ops
        if isinstance(kernel, KernelOp)
        for kind, attrs in zip(kernel.outs, kernel.res_attrs, strict=True)
        if "boundary" in attrs.data
    ]


def check(
    module: ModuleOp, sizes: dict[str, int], fuse: Fuse = "cost", split: Split = "none"
) -> ModuleOp:
    """The regions, which compute what the frontend means."""
    found = regions(module, fuse, split)
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, sizes, 4)
    played = play(found, graph.sym_name.data, inputs, sizes)
    assert played is not None
    assert_agree(played, meant(module, inputs, sizes))
    return found


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", MODELS)
def test_no_model_stores_f32(name: str) -> None:
    found = between(regions(MODELS[name].module(large=True)))
    assert not any(isinstance(kind.element_type, Float32Type) for kind in found)


def blocks(count: int) -> ModuleOp:
    """Basic blocks in sequence: each is read by a convolution, and by a sum."""
    s = Sketch("blocks")
    x = s.input("x", "N", 8, 8, 64)
    for i in range(count):
        y = s.fn("relu", conv(s, x, f"a{i}", 64, 3))
        x = s.fn("relu", s.fn("add", conv(s, y, f"b{i}", 64, 3), x))
    return s.done(y=x)


def layers(count: int) -> ModuleOp:
    """Two products and a residual, several times."""
    s = Sketch("layers")
    x = s.input("x", "T", 64)
    for i in range(count):
        h = s.fn("gelu", s.linear(x, f"a{i}", 256))
        x = s.fn("add", x, s.linear(h, f"b{i}", 64))
    return s.done(y=x)


@pytest.mark.parametrize(
    ("make", "size"), [(blocks, {"N": 2}), (layers, {"T": 37})], ids=["blocks", "layers"]
)
def test_what_is_rounded_for_one_reader_lies_in_memory_once(
    make: Callable[[int], ModuleOp], size: dict[str, int]
) -> None:
    """A kernel a product, and 2 bytes an element between two of them."""
    found = check(make(3), size)
    kernels = [op for op in found.ops if isinstance(op, KernelOp)]
    assert len(kernels) == 6 and [len(kernel.outs) for kernel in kernels] == [1] * 6
    stored = [
        prod(d.evaluate(size) for d in kind.shape) * element_bytes(kind.element_type)
        for kind in between(found)
    ]
    wide = {"blocks": 64 * 64, "layers": 256}[make.__name__]
    first, count = (64 * 64, 2) if make is blocks else (64, 37)
    assert sum(stored) == 2 * count * (3 * wide + 2 * first)


def read_twice(size: str | int = 64) -> tuple[Sketch, SSAValue]:
    s = Sketch("f")
    x = s.input("x", "T", size)
    return s, s.fn("add", x, s.linear(x, "w", size))


def test_an_output_has_the_type_of_the_signature() -> None:
    """Also where it is another view of what other kernels read, which is stored as computed."""
    s, h = read_twice("K")
    tokens, features = tensor_of(h).dims
    view = s.reshape(s.cast(h, f32), features, tokens)
    module = s.done(view=view, y=s.linear(s.layer_norm(h, "n"), "v", 64))
    first, *_ = (op for op in check(module, {"T": 37, "K": 48}).ops if isinstance(op, KernelOp))
    assert [kind.element_type for kind in first.outs] == [f32]


def test_a_deferred_value_is_as_it_is_computed() -> None:
    """It is part of its reader, not stored."""
    s, h = read_twice()
    module = s.done(y=s.softmax(h))
    stored = regions(module, "legal", "contractions")
    assert [kind.element_type for kind in between(stored)] == [f32]
    assert [kind.element_type for kind in between(regions(module, "none"))].count(f16) == 1


# Random models ----------------------------------------------------------------------------


@cache
def model(number: int) -> tuple[ModuleOp, dict[str, int]]:
    program = drawn(random.Random(f"own {number}"))
    return program.module, dict(program.sizes)


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", range(24))
@pytest.mark.parametrize("fuse", ["none", "cost"])
def test_the_reference_allows_what_is_stored(number: int, fuse: Fuse) -> None:
    """Where as much is stored as can be, and where no more is than pays."""
    module, sizes = model(number)
    try:
        found = regions(module, fuse)
    except PolycError as error:
        assert error.kind in REFUSED
        return
    graph, dice = only(module, frontend.GraphOp), random.Random(number)
    for _ in range(2):
        with np.errstate(all="ignore"):
            inputs = inputs_of(graph, sizes, dice)
            played = play(found, "f", inputs, sizes)
            assert played is not None
            assert differs(played, meant(module, inputs, sizes)) is None
