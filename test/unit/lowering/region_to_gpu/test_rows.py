"""Kernels of rows: every variant gives what the graph means, as tiles and as threads."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.arch import ARCHS as LIMITS
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile as tiles
from polyc.families.rows.variants import VARIANTS
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.agreement import tolerance_check
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs, reference
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import assert_refused, find, only, parsed, printed
from polyc.test.support.on_demand import Variants
from polyc.test.support.row_programs import PRODUCT_AND_NORM, PROGRAMS, RowProgram, graph
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")
ALONE = [v for v in VARIANTS if v.turns or v.parts == 1]
"""Those of an architecture without clusters."""
Arrays = Sequence[Any]


def planned(text: str, arch: str = "sm_80") -> ModuleOp:
    """The region with its schedules."""
    module = parsed(text)
    verify(module)
    for border in ABOVE_GPU[: ABOVE_GPU.index("region-to-gpu")]:
        build(border, arch).apply(make_context(), module)
    verify(module)
    return module


@cache
def tiled(text: str, arch: str = "sm_80") -> gpu.ModuleOp:
    """The program at the tile level."""
    module = planned(text, arch)
    build("region-to-gpu", arch).apply(make_context(), module)
    verify(module)
    return only(module, gpu.ModuleOp)


@cache
def threads(text: str, arch: str = "sm_80") -> gpu.ModuleOp:
    """The program at the hardware level."""
    return finished(tiled(text, arch).clone())


@cache
def one_variant(text: str, arch: str) -> Variants:
    """The program's variants, each at the hardware level where one is asked for."""
    return Variants(tiled(text, arch))


def graph_of(text: str) -> GraphOp:
    return only(parsed(text), GraphOp)


def variants(module: gpu.ModuleOp, sizes: Mapping[str, int]) -> list[str]:
    """The variants that take some sizes."""
    found = module.dispatch().variants()
    return [v.variant_name for v in found if all(fact.holds(sizes) for fact in v.facts.data)]


def compare(
    text: str,
    sizes: dict[str, int],
    inputs: Arrays,
    run: Callable[[str], Arrays],
    arch: str = "sm_80",
    some: slice = slice(None),
) -> None:
    """Hold every variant that takes the sizes, on sm_80 and ``arch``, to the reference (S0.6).

    Of those that are no team ``some`` are run.
    """
    source = graph_of(text)
    wanted = reference(source, inputs, sizes)
    there = variants(tiled(text, arch), sizes)
    # Teams are larger than the chip here: test_rows_kept.py.
    alone = [v for v in variants(tiled(text), sizes) if v in there and "_team" not in v]
    for variant in alone[some]:
        found = run(variant)
        for spec, one, want in zip(source.outputs, found, wanted, strict=True):
            mismatch = tolerance_check(np.asarray(one), want, spec.type.element_type)
            assert mismatch is None, (variant, mismatch)


def play(program: RowProgram, length: int, inputs: Arrays | None = None) -> None:
    """Play the tiles of every variant."""
    text, sizes = program.text, program.sizes(length)
    given = make_inputs(graph_of(text), sizes) if inputs is None else inputs
    compare(text, sizes, given, lambda variant: tile.run(tiled(text), given, sizes, variant))


# Tiles ---------------------------------------------------------------------------------------


@pytest.mark.turns(4)
@pytest.mark.parametrize("length", [1, 8, 100, 264, 1032, 2500, 8200])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_variant_plays_as_the_graph(name: str, length: int) -> None:
    """Lengths of one element, of tails in a vector, a tile and a chunk, and of several chunks."""
    play(PROGRAMS[name], length)


LADDER = (8, 72, 136, 264, 520, 1032, 2056, 4104, 6152, 8200, 32776, 5242888)
SINGLE = (7, 71, 131, 263, 519, 1031, 2055, 4103, 8199)
"""A length for which each variant of sm_80 is the first: those of vectors, and of elements."""


def test_variants_take_what_they_are_for() -> None:
    module = tiled(PROGRAMS["softmax"].text)
    for lengths, first in ((LADDER, 0), (SINGLE, len(LADDER))):
        names = [f"softmax_{variant.name}" for variant in ALONE[first:]]
        for number, length in enumerate(lengths):
            taken = variants(module, {"M": 1, "N": length})
            assert taken == [name for name in names[number:] if name in taken]
            assert taken[0] == names[number] and taken[-1] == names[-1]


@pytest.mark.parametrize(
    ("name", "nothing"), [("root_mean_square", np.nan), ("extremes", None), ("padded_sum", 4.0)]
)
def test_rows_of_nothing(name: str, nothing: float | None) -> None:
    """A sum over nothing is 0, a mean no number, a maximum -inf and a minimum inf (S0.6)."""
    program = PROGRAMS[name]
    sizes = program.sizes(0)
    inputs = make_inputs(graph_of(program.text), sizes)
    module = tiled(program.text)
    for variant in variants(module, sizes):
        found = tile.run(module, inputs, sizes, variant)
        wanted = [np.inf, -np.inf] if nothing is None else [nothing]
        for one, value in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.astype(np.float32), np.full(5, value, np.float32))


def special(change: str, x: Any) -> Any:
    """Rows with values that arithmetic treats apart."""
    match change:
        case "one value":
            return np.full_like(x, 7)
        case "the largest":
            return np.where(x > 0, 65504, -65504).astype(x.dtype)
        case "all -inf":
            return np.full_like(x, -np.inf)
        case "first half -inf":
            x[:, : x.shape[1] // 2] = -np.inf
            return x
        case _:
            return np.where(x > 0.9, np.float32(change), x).astype(x.dtype)


CHANGES = ["one value", "the largest", "all -inf", "first half -inf", "-inf", "inf", "nan"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "extremes", "layer_norm"])
@pytest.mark.parametrize("length", [264, 2500])
def test_numbers_that_are_apart(name: str, change: str, length: int) -> None:
    """NaN and infinities come out as the reference has them, in every way to hold a row."""
    program = PROGRAMS[name]
    first, *rest = make_inputs(graph_of(program.text), program.sizes(length))
    with np.errstate(all="ignore"):
        play(program, length, [special(change, first), *rest])


def test_a_large_mean_costs_no_accuracy() -> None:
    program = PROGRAMS["layer_norm"]
    x, *rest = make_inputs(graph_of(program.text), program.sizes(1032))
    play(program, 1032, [(x.astype(np.float32) + 2000).astype(x.dtype), *rest])


UNARY = ("abs", "neg", "exp", "tanh", "sigmoid", "relu")


@st.composite
def row_graphs(draw: st.DrawFn) -> str:
    """A chain of functions, reductions, and differences from what was reduced."""
    body: list[str] = []
    value = "X"
    for i in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["unary", "reduce", "reduce", "vector", "softmax"])):
            case "unary":
                fn = draw(st.sampled_from(UNARY))
                body.append(f"%v{i} = frontend.elementwise {fn} %{value} : {WIDE}")
            case "reduce":
                fn = draw(st.sampled_from(["sum", "mean", "max", "min"]))
                body.append(
                    f"%r{i} = frontend.reduce {fn} %{value} axes [1] keepdims : {WIDE} -> T<[M, 1], f32>"
                )
                how = draw(st.sampled_from(["sub", "max", "min"]))
                body.append(
                    f"%v{i} = frontend.elementwise {how} %{value}, %r{i} : ({WIDE}, T<[M, 1], f32>) -> {WIDE}"
                )
            case "vector":
                body.append(
                    f"%v{i} = frontend.elementwise add %{value}, %b : ({WIDE}, T<[N], f32>) -> {WIDE}"
                )
            case _:
                body.append(f"%v{i} = frontend.softmax %{value} axes [1] : {WIDE}")
        value = f"v{i}"
    end = draw(st.sampled_from(["sum", "max", "min"]))
    body.append(f"%s = frontend.reduce {end} %{value} axes [1] : {WIDE} -> T<[M], f32>")
    return graph(f"%X: {WIDE}, %b: T<[N], f32>", "S: T<[M], f32>", body, "%s : T<[M], f32>")  # fmt: skip


WIDE = "T<[M, N], f32>"


@settings(max_examples=examples(6))  # `make fuzz` goes on: test/fuzz/layers.py.
@given(row_graphs(), st.sampled_from([1, 24, 77, 1200]))
def test_random_rows(text: str, length: int) -> None:
    """What fuses into one region of rows plays as the graph does."""
    if len([op for op in planned(text).ops if op.name == "region.kernel"]) == 1:
        play(RowProgram(text, {"M": 3}), length)


# What kernels do -----------------------------------------------------------------------------


def kernel_of(name: str, variant: str) -> gpu.KernelOp:
    """The kernel of a program's variant, at the tile level."""
    kernels = tiled(PROGRAMS[name].text).kernels()
    (found,) = [k for k in kernels if k.sym_name.data == f"{name}_{variant}"]
    return found


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
def test_a_resident_row_is_read_once(name: str) -> None:
    """One copy of X, and the vectors of the columns once, in the map that writes."""
    for variant in VARIANTS:
        if variant.way != "resident":
            continue
        kernel = kernel_of(name, variant.name)
        x = kernel.body.block.args[0]
        assert [type(use.operation) for use in x.uses] == [tiles.CopyOp]
        vectors = kernel.body.block.args[1:-3]  # before Y, M and N
        assert all(len(list(v.uses)) == 1 for v in vectors)


def test_softmax_takes_one_exponential_of_an_element() -> None:
    """What the sum adds up is what the output divides."""
    block = kernel_of("softmax", "block")
    assert len(find(block, math.Exp2Op)) == 1
    assert not find(block, math.ExpOp)


def test_cheap_values_are_computed_again() -> None:
    """LayerNorm's differences are in no fragment: X and two sources of reductions are."""
    block = kernel_of("layer_norm", "block")
    wide = [op for op in find(block, tiles.FragmentOp) if "8192" in str(op.fragment.type)]
    assert len(wide) == 3


def test_a_row_that_fills_its_tile_has_no_tail() -> None:
    module = tiled(PROGRAMS["softmax"].text.replace(", N]", ", 8192]"))
    assert [k.sym_name.data for k in module.kernels()] == ["softmax_block"]
    assert not find(module, arith.CmpiOp)


def test_several_outer_axes_are_walked_in_order() -> None:
    program = PROGRAMS["masked_heads"]
    for launch in tiled(program.text).dispatch().launches():
        blocks = prod(dim.evaluate(program.sizes(8)) for dim in launch.grid.data)
        name = launch.kernel_name
        one = "lanes" in name or name.endswith(("_256", "_128"))
        several = 1 if one else 2 if "warp" in name else 5
        _, _, parts = name.partition("_team")
        assert blocks == 2 * 3 * several * int(parts or 1)


# Threads -------------------------------------------------------------------------------------

EVERY = ("softmax", "layer_norm")
"""Programs whose every variant is run thread by thread, one an architecture; of others a third."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "lengths"),
    # The kernels of rows are the same ops for both architectures, which take turns.
    [
        ("softmax", (1, 77, 264)),
        ("layer_norm", (264, 1100)),
        ("rms_norm", (72,)),
        ("log_softmax", (264,)),
        ("extremes", (72,)),
        ("residual", (264,)),
        ("masked_heads", (40,)),
        ("one_row", (264,)),
        ("padded_sum", (40,)),
        ("parts_of_a_sum", (40,)),
        ("constant_rows", (40,)),
        ("sliced", (40,)),
    ],
)
def test_threads_agree_and_have_no_findings(name: str, lengths: tuple[int, ...]) -> None:
    program, arch = PROGRAMS[name], ARCHS[len(name) % 2]
    for length in lengths:
        sizes = program.sizes(length)
        inputs = make_inputs(graph_of(program.text), sizes)

        def run(variant: str, inputs: Arrays = inputs, sizes: dict[str, int] = sizes) -> Arrays:
            kernels = one_variant(program.text, arch).named(variant)
            result = simulate(kernels, inputs, sizes, variant, schedule="random", seed=1)
            result.check()
            return result.outputs

        step = 1 if name in EVERY else 3
        compare(program.text, sizes, inputs, run, arch, slice(len(name) % step, None, step))


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "arch"), [(name, list(ARCHS)[i % 2]) for i, name in enumerate(PROGRAMS) if i % 3 != 2]
)
def test_kernels_compile(arch: str, name: str) -> None:
    """No spill, no stack, no complaint; registers leave room for twelve warps a multiprocessor."""
    module = threads(PROGRAMS[name].text, arch)
    result = nvrtc.compile_cuda(cuda_source(module), arch)
    assert not result.warnings()
    assert len(result.kernels) == len(module.dispatch().variants())
    threads_of = {kernel.sym_name.data: kernel.threads.value.data for kernel in module.kernels()}
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack) == (0, 0), kernel
        blocks = LIMITS[arch].registers // (info.registers * threads_of[kernel])
        assert blocks * threads_of[kernel] >= 12 * 32, kernel


@cache
def known(*shape: int | str) -> str:
    """A norm, its softmax and its largest elements over rows of a known length."""
    s = Sketch("known")
    x, scale = s.input("x", *shape), s.input("scale", shape[-1])
    normed = s.add(frontend.LayerNormOp(x, [len(shape) - 1], 1e-5, weight=scale))
    return str(s.done(y=s.softmax(normed), most=s.reduce("max", x, len(shape) - 1)))


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    "shape",
    [("M", 8), ("M", 12), ("M", 49), ("M", 64), (3, "M", 40), (2, 100), (16,), ("M", 1001)],
    ids=str,
)
def test_rows_of_a_known_length_share_a_warp_and_widen_vectors(shape: Sequence[int | str]) -> None:
    """Eight lanes have a row of 64, and no vector goes beyond one of 49: as tiles and as threads."""
    text, sizes = known(*shape), {"M": 21} if "M" in shape else {}
    source = graph_of(text)
    inputs = make_inputs(source, sizes)
    compare(text, sizes, inputs, lambda variant: tile.run(tiled(text), inputs, sizes, variant))

    def run(variant: str) -> Arrays:
        result = simulate(threads(text), inputs, sizes, variant, schedule="random", seed=1)
        result.check()
        return result.outputs

    compare(text, sizes, inputs, run)
    for arch in ARCHS:
        done = nvrtc.compile_cuda(cuda_source(threads(text, arch)), arch)
        assert not done.warnings()
        assert all((info.spill_bytes, info.stack) == (0, 0) for info in done.kernels.values())


@pytest.mark.parametrize(
    ("kind", "names", "body"),
    [
        ("bf16", "a", "%n = frontend.layer_norm %a axes [1] eps 1.0e-05 : (T) -> T"),
        (
            "f32",
            "ab",
            "%s = frontend.elementwise add %a, %b : (T, T) -> T\n"
            "  %n = frontend.softmax %s axes [1] : T",
        ),
    ],
    ids=["a norm alone", "a softmax of a sum"],
)
def test_what_is_bound_to_registers_does_not_spill(kind: str, names: str, body: str) -> None:
    t = f"!frontend.tensor<[M, N], {kind}>"
    inputs = ", ".join(f"%{name}: {t}" for name in names)
    head = f"frontend.graph @g({inputs}) -> (Y: {t}) assuming (N mod 8 == 0, N <= 2048) {{\n  "
    text = f"{head}{body.replace('T', t)}\n  frontend.output %n : {t}\n}}\n"
    module = threads(text, "sm_90a")
    assert max(kernel.blocks_per_sm.value.data for kernel in module.kernels()) > 1
    done = nvrtc.compile_cuda(cuda_source(module), "sm_90a")
    assert all(info.spill_bytes == 0 for info in done.kernels.values())


def test_a_short_row_meets_few_lanes() -> None:
    """Three shuffles of each of four rows combine eight lanes; one variant is there, as no vector crosses a row's end."""
    s = Sketch("short")
    text = cuda_source(threads(str(s.done(y=s.reduce("sum", s.input("x", "M", 64), 1)))))
    assert text.count("__shfl_xor_sync") == 12 and text.count("__global__") == 1


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "asked", "there"),
    [
        ("cluster = [1, 1]", "cluster = [2, 1]", "[1, 1]"),
        ("persistent = false", "persistent = true", "false"),
        ('raster = "row"', 'raster = "grouped"', '"row"'),
    ],
)
def test_a_choice_that_is_not_built_is_refused(said: str, asked: str, there: str) -> None:
    text = printed(planned(PROGRAMS["softmax"].text, "sm_90a"))
    field = said.split(" ")[0]
    message = (
        f"plan 'lanes' asks for a {field} that region-to-gpu does not build for rows; use {there}"
    )
    text = text.replace(said, asked, 1)
    assert_refused(text, "UnsupportedPlan", message, 'variant "lanes"', "region-to-gpu")


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_norm_after_a_product_is_a_sequence(arch: str) -> None:
    module = threads(PRODUCT_AND_NORM, arch)
    for variant in module.dispatch().variants():
        # The product's operands may be copied first, or its parts added, and teams share the rows.
        assert 2 <= len(variant.launches()) <= 5
    source = graph_of(PRODUCT_AND_NORM)
    for sizes in ({"M": 20, "K": 24, "N": 72}, {"M": 9, "K": 5, "N": 33}):
        inputs = make_inputs(source, sizes)
        (want,) = reference(source, inputs, sizes)
        result = simulate(module, inputs, sizes)
        result.check()
        kind = source.outputs[0].type.element_type
        assert tolerance_check(np.asarray(result.outputs[0]), want, kind) is None
