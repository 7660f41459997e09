"""Programs of rank 0: every layer's playback gives arrays, where NumPy's own are scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend, tiny
from polyc.dialects.frontend.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from polyc.dialects.region import GraphOp as KernelsOp
from polyc.passes.finish import finished, is_finished
from polyc.playback import frontend as frontend_playback
from polyc.playback import functions, index
from polyc.playback import tile as tile_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.functions import Array
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.reference import reference
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.play import play
from polyc.tools.registry import make_context

S, B = "!frontend.tensor<[], f32>", "!frontend.tensor<[], i1>"

OPS = {
    **{fn: f"%0 = frontend.elementwise {fn} %x : {S}" for fn in UNARY_FUNCTIONS},
    **{fn: f"%0 = frontend.elementwise {fn} %x, %y : ({S}, {S}) -> {S}" for fn in BINARY_FUNCTIONS},
    **{
        fn: f"%c = frontend.compare {fn} %x, %y : ({S}, {S}) -> {B}\n"
        f"  %0 = frontend.select %c, %x, %y : ({B}, {S}, {S}) -> {S}"
        for fn in functions.COMPARE
    },
    "cast": "%h = frontend.cast %x : !frontend.tensor<[], f32> -> !frontend.tensor<[], f16>\n"
    f"  %0 = frontend.cast %h : !frontend.tensor<[], f16> -> {S}",
    "constant": f"%0 = frontend.constant 2.5 : {S}",
    "reshape": f"%0 = frontend.reshape %x : {S} -> {S}",
    "permute": f"%0 = frontend.permute %x perm [] : {S} -> {S}",
    "expand": f"%0 = frontend.expand %x dims [] : {S} -> {S}",
    "pad": f"%0 = frontend.pad %x low [] high [] value 1.0 : {S} -> {S}",
    "slice": f"%0 = frontend.slice %x [] : {S} -> {S}",
}
X, Y = (np.array(v, np.float32) for v in (0.75, -1.25))


def program(op: str) -> str:
    return (
        f"frontend.graph @f(%x: {S}, %y: {S}) -> {S} {{\n  {OPS[op]}\n"
        f"  frontend.output %0 : {S}\n}}\n"
    )


def check(layer: str, outputs: Sequence[Array], expected: Array) -> None:
    """One array of rank 0 of the stored type, with the expected value."""
    assert [type(value) for value in outputs] == [np.ndarray], layer
    assert (outputs[0].shape, outputs[0].dtype) == ((), np.dtype(np.float32)), layer
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-5, err_msg=layer)


def graph_in(module: ModuleOp, kind: type) -> object:
    return next(op for op in module.ops if isinstance(op, kind))


def test_every_function_is_here() -> None:
    assert set(UNARY_FUNCTIONS) == set(functions.UNARY)
    assert set(BINARY_FUNCTIONS) == set(functions.BINARY)


@pytest.mark.parametrize("op", OPS)
def test_every_layer_gives_arrays(op: str) -> None:
    ctx = make_context()
    module = parse_text(ctx, program(op), "x.mlir")
    graph = graph_in(module, frontend.GraphOp)
    assert isinstance(graph, frontend.GraphOp)
    (wanted,) = frontend_playback.run(graph, [X, Y], {})
    check("evaluate", frontend_playback.evaluate(graph, [X, Y], {}), wanted)
    check("exact", frontend_playback.evaluate(graph, [X, Y], {}, exact_sums=True), wanted)
    check("reference", [x.value for x in reference(graph, [X, Y], {})], wanted)
    job = Compilation(ctx, module.clone(), "sm_80")
    job.keep = ("frontend", "tiny", "index", "region")
    tiles: list[ModuleOp] = []

    def after(at: ModuleOp, name: str) -> None:
        if name == "region-to-gpu":
            tiles.append(at.clone())

    job.after = after
    job.run()
    for layer in job.keep:
        outputs = play(job.kept[layer], "f", [X, Y], {})
        assert outputs is not None
        check(layer, outputs, wanted)
    booked = graph_in(job.kept["index"], tiny.GraphOp)
    assert isinstance(booked, tiny.GraphOp)
    assert all(type(v) is np.ndarray for _, v in index.every_value(booked, [X, Y], {}))
    for made in booked.body.block.ops:
        if made.results and not any(o for o in made.operands if o.owner is not booked.body.block):
            of_one = tiny_playback.evaluate(made, [X, Y][: len(made.operands)], {})
            assert type(of_one) is np.ndarray, made.name
    low = gpu_module_of(job.module)
    assert is_finished(low) and finished(low) is low
    check("simulated", simulate(low, [X, Y][: _inputs(job.module)], {}).outputs, wanted)
    check("tiles", tile_playback.run(gpu_module_of(tiles[0]), [X, Y], {}), wanted)


def _inputs(module: ModuleOp) -> int:
    return gpu_module_of(module).dispatch().num_inputs.value.data


@pytest.mark.parametrize("table", ["UNARY", "BINARY", "COMPARE"])
def test_the_tables_give_arrays(table: str) -> None:
    """Of arrays of rank 0, and of NumPy's scalars, which a caller may have."""
    call = {"UNARY": functions.unary, "BINARY": functions.binary, "COMPARE": functions.compare}
    for name in getattr(functions, table):
        for args in ([X, Y], [X[()], Y[()]]):
            found = call[table](name, *args[: 1 if table == "UNARY" else 2])
            assert type(found) is np.ndarray and found.shape == (), name


def test_what_rounds_and_reduces_gives_arrays() -> None:
    from xdsl.dialects.builtin import bf16, f16, f32

    for kind in (f16, bf16, f32):
        assert type(functions.round_to(X[()], kind)) is np.ndarray
    assert type(functions.widen(np.float16(1))) is np.ndarray  # pyright: ignore[reportArgumentType]
    for fn in functions.IDENTITY:
        assert type(functions.reduce(fn, np.ones(3, np.float32), (0,))) is np.ndarray


@pytest.mark.parametrize("fn", ["sum", "max", "min", "mean"])
@pytest.mark.parametrize("layer", ["frontend", "tiny", "index", "region"])
def test_reductions_to_rank_zero(fn: str, layer: str) -> None:
    v = "!frontend.tensor<[N], f32>"
    text = (
        f"frontend.graph @f(%x: {v}) -> {S} {{\n"
        f"  %0 = frontend.reduce {fn} %x axes [0] : {v} -> {S}\n"
        f"  %1 = frontend.elementwise exp %0 : {S}\n  frontend.output %1 : {S}\n}}\n"
    )
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text, "x.mlir"), "sm_80")
    job.keep = (layer,)
    job.run("region")
    x = np.array([0.5, -1.0, 0.25], np.float32)
    outputs = play(job.kept[layer], "f", [x], {"N": 3})
    assert outputs is not None
    check(layer, outputs, np.exp(getattr(np, fn)(x)))
    assert not any(isinstance(op, KernelsOp) for op in job.kept[layer].ops)
