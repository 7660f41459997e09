"""Kernels of rows whose rows lie where indices say: what embeddings and norms become."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, i32, i64

from polyc.dialects import frontend
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.region import KernelOp
from polyc.families.rows.recognise import find_rows
from polyc.playback.functions import Array
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gathering import data, hostile
from polyc.test.support.gpu_text import find
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")


def embedded(size: Size, *, fill: float | None = None, then: str = "rms_norm") -> ModuleOp:
    """Rows of a table at indices, and a norm or a softmax of them."""
    s = Sketch("embedded", f16)
    table, at = s.input("table", "V", size), s.input("at", "N", element=i64)
    rows = s.add(frontend.GatherOp(table, at, 0, fill, from_end=fill is not None))
    return s.done(y=s.softmax(rows) if then == "softmax" else s.rms_norm(rows, "weight"))


def finite(shape: Sequence[int]) -> Array:
    return np.nan_to_num(data(shape, f16, random.Random(1)), posinf=3, neginf=-3)


def agree(module: ModuleOp, inputs: Sequence[Array], sizes: Mapping[str, int], arch: str) -> None:
    """A module's kernels give what it means, and read nothing outside."""
    right = meant(module, inputs, sizes)
    built = gpu_module_of(lowered(parse_text(make_context(), str(module), "e.mlir"), arch, "gpu"))
    result = simulate(built, inputs, sizes)
    result.check()
    assert_agree(result.outputs, right, arch)


@pytest.mark.parametrize("then", ["rms_norm", "softmax"])
def test_rows_at_indices_and_their_norm_are_one_kernel(then: str) -> None:
    (kernel,) = find(lowered(embedded("D", then=then), "sm_90a", "region"), KernelOp)
    rows = find_rows(kernel)
    assert len(rows.gathers) == 1 and rows.row.label == "d"


def test_rows_are_read_by_vectors() -> None:
    for kernel in find(lowered(embedded(256), "sm_90a", "gpu"), GpuKernelOp):
        loads = [op for op in find(kernel, hw.LoadGlobalOp) if op.tensor.name_hint == "table"]
        assert [str(op.result.type) for op in loads] == ["vector<8xf16>"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("size", [1, 24, 33, 264])
@pytest.mark.parametrize("fill", [None, 0.5])
def test_kernels_give_what_the_graph_means(size: int, fill: float | None, arch: str) -> None:
    for rows, count in ((5, 7), (1, 3), (0, 2)):
        at = hostile((count,), i64, rows, random.Random(size + rows))
        inputs = [finite((rows, size)), at, finite((size,))]
        agree(embedded(size, fill=fill), inputs, {"V": rows, "N": count}, arch)


@pytest.mark.turns(2)
@pytest.mark.parametrize(("arch", "size"), [("sm_80", 8), ("sm_90a", 21)])
def test_lengths_of_the_call_s(arch: str, size: int) -> None:
    inputs = [finite((6, size)), hostile((4,), i64, 6, random.Random(0))]
    agree(embedded("D", then="softmax"), inputs, {"V": 6, "N": 4, "D": size}, arch)


def differing() -> ModuleOp:
    """An index for each element of a row, and the row's softmax."""
    s = Sketch("differing", f16)
    x, at = s.input("x", "M", "K"), s.input("at", "M", "N", element=i32)
    return s.done(y=s.softmax(s.add(frontend.GatherElementsOp(x, at, 1))))


@pytest.mark.parametrize("arch", ARCHS)
def test_indices_that_differ_along_a_row_are_right_too(arch: str) -> None:
    at = hostile((3, 9), i32, 5, random.Random(2))
    agree(differing(), [finite((3, 5)), at], {"M": 3, "K": 5, "N": 9}, arch)


COMPILED = (lambda: embedded("D"), lambda: embedded(4096, fill=0.0), differing)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("module", COMPILED, ids=("any", "known", "differing"))
def test_kernels_compile_without_a_spill(module: Callable[[], ModuleOp], arch: str) -> None:
    program = Program.compile(lowered(module(), arch, "gpu"))
    assert all(info.spill_bytes == 0 for info in program.kernels.values())
