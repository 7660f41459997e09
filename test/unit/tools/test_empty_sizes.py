"""A size that is 0 as a number: what a symbol that is 0 at launch gives, at every layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyc.tile as T
from polyc.dialects.common.arch import ARCHS
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish, finished
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.driver import verify
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.empty_programs import PROGRAMS, sizes_of, text
from polyc.test.support.on_demand import Variants
from polyc.tools import polyc
from polyc.tools.check import Expected, small_sizes
from polyc.tools.opt import PolycOptMain
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

SIZES = {"B": 2, "C": 3, "D": 4, "E": 5, "F": 6, "H": 3, "K": 7, "L": 4, "M": 5, "N": 3, "P": 2,
    "W": 4, "Z": 1,
}  # fmt: skip
"""What the symbols are that are not 0."""

LAYERS = ("frontend", "tiny", "index", "region")
CASES = [
    (name, size)
    for number, name in enumerate(PROGRAMS)
    for i, size in enumerate(sizes_of(name))
    if (i + number) % 3 == 0 or i == len(sizes_of(name)) - 1
]
"""Every third size of each program, and its last."""


def arch_of(case: object) -> str:
    """One of the architectures; each is that of half of the cases."""
    return list(ARCHS)[sum(map(ord, str(case))) % len(ARCHS)]


@cache
def lowered(source: str, arch: str) -> tuple[Compilation, Variants]:
    """A program at each layer down to tiles, and its variants, which sizes bring to threads."""
    ctx = make_context()
    module = parse_text(ctx, source, "empty.mlir")
    verify(module)
    job = Compilation(ctx, module, arch, keep=LAYERS).run("tiles")
    return job, Variants(gpu_module_of(job.module, "g"))


def played(source: str, arch: str, zero: set[str]) -> list[Any]:
    """What the kernels write where the symbols ``zero`` are 0; the layers above agree with it."""
    job, variants = lowered(source, arch)
    (graph,) = graphs(job.kept["frontend"])
    sizes = {s: 0 if s in zero else SIZES[s] for s in graph.symbol_names}
    expected = Expected.of(graph, sizes)
    for layer, module in job.kept.items():
        expected.check(module, f"the {layer} layer")
    result = simulate(variants.at(sizes), expected.inputs, sizes)
    result.check()
    expected.compare("the kernel", result.outputs)
    return list(result.outputs)


def same(found: list[Any], wanted: list[Any]) -> bool:
    """Whether two runs gave the same bits."""
    return [(a.shape, a.tobytes()) for a in found] == [(a.shape, a.tobytes()) for a in wanted]


WHOLE = [*PROGRAMS][::4]
"""Programs whose every variant is compiled; of the others the one that runs."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_size_of_0_is_a_symbol_that_is_0(name: str, size: str) -> None:
    arch = arch_of(name)  # one of the program with symbols serves all of its sizes
    number = text(name, {size: "0"})
    found = played(number, arch, set())
    if size == sizes_of(name)[-1]:  # what is printed where one or another is 0 differs little
        job, variants = lowered(number, arch)
        (graph,) = graphs(job.kept["frontend"])
        made = variants.at({s: SIZES[s] for s in graph.symbol_names})
        if name in WHOLE:
            made = finished(gpu_module_of(job.module, "g"))
        assert compile_cuda(cuda_source(made), arch).image
    if name != "reshape_view":  # of symbols a view of memory that no kernel takes, see below
        assert same(found, played(text(name, {}), arch, {size}))


@pytest.mark.parametrize("name", [*PROGRAMS][::2])
def test_every_size_is_0(name: str) -> None:
    played(text(name, dict.fromkeys(sizes_of(name), "0")), arch_of(name), set())


@pytest.mark.parametrize("name", [*PROGRAMS][1::2])
def test_numbers_beside_a_0(name: str) -> None:
    """No size is open: what a schedule can divide by is known."""
    sizes = sizes_of(name)
    numbers = {size: str(2 + 6 * (i % 2)) for i, size in enumerate(sizes)}
    played(text(name, {**numbers, sizes[-1]: "0"}), arch_of(name), set())


ARITHMETIC = ("0 * Z", "(Z - Z)", "(8 floordiv 9)", "(6 mod 3)")
"""Spellings of 0."""


@pytest.mark.parametrize(
    ("name", "size"),
    [("relu", size) for size in ARITHMETIC]
    + list(zip(("gemm", "softmax", "concat", "pad"), ARITHMETIC, strict=True))
    + [("gemm", "(Z - Z)"), ("reshape_flat", "0 * Z")],
)
def test_a_0_of_arithmetic(name: str, size: str) -> None:
    for open_size in sizes_of(name):
        found = played(text(name, {open_size: size}), arch_of(name), set())
        assert same(found, played(text(name, {open_size: "0"}), arch_of(name), set()))


def test_a_view_of_what_has_no_element() -> None:
    """``[0, 3]`` as ``[3, 0]`` divides by a symbol, and there is nothing to read."""
    for arch in ARCHS:
        (out,) = played(text("reshape_view", {"M": "0"}), arch, set())
        assert out.shape == (3, 0)


@pytest.mark.parametrize(
    ("name", "size", "wanted"),
    [
        ("sum", "N", 0.0),
        ("max_columns", "M", -np.inf),
        ("min_kept", "N", np.inf),
        ("mean", "N", np.nan),
        ("sum_all", "M", 0.0),
        ("gemm", "K", 0.0),
        ("gemm_f32", "K", 0.0),
        ("mlp", "L", 0.0),
        ("conv_nhwc", "C", 0.0),
        ("conv_strided", "C", 0.0),
        ("attention", "N", 0.0),
        ("pad", "M", 1.5),
    ],
)
def test_what_nothing_gives(name: str, size: str, wanted: float) -> None:
    out = played(text(name, {size: "0"}), arch_of(name), set())[0].astype(np.float32)
    assert out.size and np.array_equal(out, np.full(out.shape, wanted), equal_nan=True)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["relu", "concat", "pad_by_size", "softmax", "gemm"])
def test_the_tools(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--check-each``, ``run``, ``simulate``, ``analyze`` and ``compile``."""
    size = sizes_of(name)[-1]
    source = text(name, {size: "0"})
    file = tmp_path / "empty.mlir"
    file.write_text(source)
    (graph,) = graphs(parse_text(make_context(), source, "empty.mlir"))
    given = [f"--set={s}={min(v, 2)}" for s, v in small_sizes(graph).items()]
    arch = arch_of(name)
    passes = f"lower-to-gpu{{arch={arch}}}"
    PolycOptMain(args=[str(file), *given, "-p", passes, "--check-each"]).run()
    for command in (
        ["run", str(file), *given, "--device", "cpu", "--check"],
        ["simulate", str(file), *given, "--arch", arch, "--check"],
        ["analyze", str(file)],
        ["compile", str(file), "--arch", arch, "--emit", "cubin", "-o", str(tmp_path / "o.cubin")],
    ):
        assert polyc.main(command) == 0, capsys.readouterr().err


# Tiles -----------------------------------------------------------------------------------


def product(m: Any, k: Any, n: Any) -> T.Program:
    """A product through a pipeline."""

    @T.program(arch="sm_80")
    def program(
        A: T.Tensor[m, k, T.f16],  # pyright: ignore
        B: T.Tensor[k, n, T.f16],  # pyright: ignore
        C: T.Out[m, n, T.f32],  # pyright: ignore
    ) -> None:
        with T.kernel(threads=128, grid=[T.ceildiv(m, 64), T.ceildiv(n, 64)]):
            row, column = T.tile_coordinates(m, n, tile=(64, 64))
            a, b = T.alloc_shared((64, 32), T.f16), T.alloc_shared((32, 64), T.f16)
            acc = T.alloc_fragment((64, 64), T.f32)
            T.clear(acc)
            with T.pipelined(k, step=32, stages=2) as (at, _):
                T.copy(A[row, at], a)
                T.copy(B[at, column], b)
                T.gemm(a, b, acc)
            with T.parallel(acc) as (i, j):
                C[row + i, column + j] = acc[i, j]

    return program


def sums(m: Any, k: Any, n: Any) -> T.Program:
    """The sums of rows and a copy; of the second input nothing is read."""

    @T.program(arch="sm_80")
    def program(
        A: T.Tensor[m, k, T.f16],  # pyright: ignore
        B: T.Tensor[k, n, T.f16],  # pyright: ignore
        D: T.Out[m, k, T.f16],  # pyright: ignore
        S: T.Out[m, T.f32],  # pyright: ignore
    ) -> None:
        with T.kernel(threads=128, grid=[T.ceildiv(m, 64)]):
            row = T.block_id() * 64
            wide, half = T.alloc_fragment((64, 32), T.f32), T.alloc_fragment((64, 32), T.f16)
            part = T.alloc_fragment((64,), T.f32)
            T.clear(part)
            with T.serial(0, k, 32) as at:
                T.copy(A[row, at], half)
                T.copy(half, D[row, at])
                with T.parallel(half) as (i, j):
                    wide[i, j] = T.cast(half[i, j], T.f32)
                T.reduce("sum", wide, part, axis=1, accumulate=True)
            with T.parallel(part) as (i,):
                S[row + i] = part[i]

    return program


@pytest.mark.parametrize("zero", ["M", "K", "N", "MKN"])
@pytest.mark.parametrize("tiles", [product, sums])
def test_tiles_with_a_size_of_0(tiles: Callable[..., T.Program], zero: str) -> None:
    sizes = {"M": 3, "K": 40, "N": 5} | dict.fromkeys(zero, 0)
    inputs: list[Any] = [
        (np.arange(sizes[r] * sizes[c]) % 5 - 2).reshape(sizes[r], sizes[c]).astype(np.float16)
        for r, c in ("MK", "KN")
    ]
    a, b = (x.astype(np.float32) for x in inputs)
    wanted = [a @ b] if tiles is product else [a, a.sum(1)]
    for number in (True, False):
        program = tiles(*(0 if number and s in zero else T.size(s) for s in "MKN"))
        module = program.module()
        given = {s: sizes[s] for s in gpu_module_of(module, None).symbol_names}
        found = [tile.run(gpu_module_of(module, None), inputs, given)]
        finish(module)
        result = simulate(gpu_module_of(module, None), inputs, given)
        result.check()
        for outputs in (*found, result.outputs):
            for out, want in zip(outputs, wanted, strict=True):
                assert np.array_equal(out.astype(np.float32), want)
        assert program.compile().kernels
