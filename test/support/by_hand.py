"""Graphs, and tile programs that say that they replace them, for the tests of kernels by hand."""

from __future__ import annotations

from pathlib import Path

from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import build
from polyc.rewriting.region.matching import Match, match
from polyc.test.support.gpu_text import parsed
from polyc.test.support.root import ROOT
from polyc.tools.kernels.instance import Instance, instances
from polyc.tools.kernels.regions import PASSES, forms
from polyc.tools.kernels.registered import Registered, registered
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def add_relu(x: str = "[M, N]", b: str = "[N]", last: str = "relu", kind: str = "f32") -> str:
    """Y = relu(X + b), at shapes of its own."""
    t, u = f"!frontend.tensor<{x}, {kind}>", f"!frontend.tensor<{b}, {kind}>"
    return (
        f"frontend.graph @f(%X: {t}, %b: {u}) -> (Y: {t}) {{\n"
        f"  %0 = frontend.elementwise add %X, %b : ({t}, {u}) -> {t}\n"
        f"  %1 = frontend.elementwise {last} %0 : {t}\n"
        f"  frontend.output %1 : {t}\n}}\n"
    )


def product(
    a: str = "[M, K]",
    b: str = "[K, N]",
    c: str = "[M, N]",
    last: str = "relu",
    kind: str = "f16",
    more: str = "",
) -> str:
    """C = relu(A · B), at shapes of its own."""
    t, u, v = (f"!frontend.tensor<{shape}, {kind}>" for shape in (a, b, c))
    return (
        f"frontend.graph @f(%A: {t}, %B: {u}) -> (C: {v}) {more} {{\n"
        f"  %0 = frontend.gemm %A, %B {{acc = f32}} : ({t}, {u}) -> {v}\n"
        f"  %1 = frontend.elementwise {last} %0 : {v}\n"
        f"  frontend.output %1 : {v}\n}}\n"
    )


def regions(text: str) -> list[KernelOp]:
    """The regions of a graph, as patterns are looked for in them."""
    module, ctx = parsed(text), make_context()
    for name in PASSES:
        run_pass(ctx, build(name, "sm_90a"), module)
    return forms(module)


def region(text: str) -> KernelOp:
    """The only region of a graph."""
    (found,) = regions(text)
    return found


FILE = '''"""Y = relu(X + b) by hand."""

import polyc.tile as T

M, N = T.sizes("M", "N")

PATTERN = """{pattern}"""


@T.program(arch="{arch}", replaces=PATTERN, assume="{assume}")
def by_hand(X: T.Tensor[M, N, T.f32], b: T.Tensor[N, T.f32], Y: T.Out[M, N, T.f32]):
    with T.kernel(threads=128, grid=[T.ceildiv(M, 4), T.ceildiv(N, 128)], when="{when}"):
        i0, j0 = T.tile_coordinates(M, N, tile=(4, 128), raster="row", group=1)
        x = T.alloc_fragment((4, 128), T.f32)
        T.copy(X[i0, j0], x)
        with T.parallel(x, origin=(i0, j0)) as (i, j):
            x[i, j] = {value}
        T.copy(x, Y[i0, j0])
'''

RIGHT = "T.max(x[i, j] + b[j + j0], 0.0)"


def written(
    path: Path,
    value: str = RIGHT,
    when: str = "",
    arch: str = "sm_90a",
    assume: str = "",
    pattern: str | None = None,
) -> Path:
    """A file of one tile program for ``add_relu``, which computes ``value``."""
    file = path / f"by_hand_{abs(hash((value, when, arch, assume, pattern)))}.py"
    text = add_relu() if pattern is None else pattern
    file.write_text(
        FILE.format(pattern=text, value=value, when=when, arch=arch, assume=assume), "utf-8"
    )
    return file


def variants(own: Registered, target: KernelOp) -> list[Instance | str]:
    """The variants of a program for a region, which it computes."""
    found = match(own.pattern, target)
    assert isinstance(found, Match), found
    return instances(own, target, found)


def instance(file: Path, target: KernelOp) -> Instance:
    """The only variant of the only program of a file."""
    (own,) = registered(str(file))
    (found,) = variants(own, target)
    assert isinstance(found, Instance), found
    return found


def product_file(path: Path, tile: str = "(128, 64)") -> Path:
    """A file of one tile program for ``product``: the example without its bias."""
    text = (ROOT / "examples" / "kernels" / "gemm.py").read_text("utf-8")
    for old, new in (
        ("((128, 160), (128, 176))", f"({tile},)"),
        ("        bias: T.Tensor[N, T.f16],\n", ""),
        ("acc[i, j] + T.cast(bias[j + n0], T.f32)", "acc[i, j]"),
        ("../gemm_bias_relu.mlir", "product.mlir"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    (path / "product.mlir").write_text(product(), "utf-8")
    file = path / "product_by_hand.py"
    file.write_text(text, "utf-8")
    return file


SEQUENCE = '''
import polyc.tile as T

M, N = T.sizes("M", "N")


@T.program(arch="sm_90a", replaces="""{pattern}""")
def twice(X: T.Tensor[M, N, T.f32], b: T.Tensor[N, T.f32], Y: T.Out[M, N, T.f32]):
    with T.sequence("both", when="M >= 1"):
        kept = T.workspace("kept", (M, N), T.f32)
        for name, source, target in (("twice_first", X, kept), ("second", kept, Y)):
            with T.kernel(name, threads=128, grid=[T.ceildiv(M, 4), T.ceildiv(N, 128)]):
                i0, j0 = T.tile_coordinates(M, N, tile=(4, 128), raster="row", group=1)
                x = T.alloc_fragment((4, 128), T.f32)
                T.copy(source[i0, j0], x)
                with T.parallel(x, origin=(i0, j0)) as (i, j):
                    x[i, j] = x[i, j] + b[j + j0] if source is X else T.max(x[i, j], 0.0)
                T.copy(x, target[i0, j0])
'''


def sequence_file(path: Path, last: str = "T.max(x[i, j], 0.0)") -> Path:
    """A file of one tile program for ``add_relu``, of two launches with a workspace between."""
    file = path / f"sequence_{abs(hash(last))}.py"
    text = SEQUENCE.format(pattern=add_relu())
    file.write_text(text.replace("T.max(x[i, j], 0.0)", last), "utf-8")
    return file
