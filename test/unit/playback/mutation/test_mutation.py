"""The mutants that measure a checker: many, distinct, each in one place."""

from __future__ import annotations

from functools import cache

import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.mutation import Mutant, mutants, mutated
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

EXAMPLE = "examples/gemm_bias_relu.mlir"


@cache
def module(arch: str) -> ModuleOp:
    ctx = make_context()
    with open(EXAMPLE, encoding="utf-8") as file:
        source = parse_text(ctx, file.read(), EXAMPLE)
    compiled = Compilation(ctx, source, arch).run().module
    (found,) = (op for op in compiled.ops if isinstance(op, ModuleOp))
    return found


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_each_mutant_is_its_own_and_leaves_the_module_alone(arch: str) -> None:
    before = str(module(arch))
    texts = {kernel.sym_name.data: {str(kernel)} for kernel in module(arch).kernels()}
    found = mutants(module(arch))
    assert len(set(found)) == len(found)
    for mutant in found[::42]:
        (changed,) = (
            kernel
            for kernel in mutated(module(arch), mutant).kernels()
            if kernel.sym_name.data == mutant.kernel
        )
        texts[mutant.kernel].add(str(changed))
    assert sum(map(len, texts.values())) == len(texts) + len(found[::42])
    assert str(module(arch)) == before


def test_there_are_at_least_200_mutants_of_the_gemm_kernels() -> None:
    assert sum(len(mutants(module(arch))) for arch in ("sm_80", "sm_90a")) >= 200


@pytest.mark.parametrize(
    ("arch", "op", "change"),
    [
        ("sm_80", "gpu.barrier", "remove it"),
        ("sm_80", "gpu.cp_async_wait", "pending 1 -> 2"),
        ("sm_80", "gpu.cp_async", "drop the predicate"),
        ("sm_80", "arith.xori", "no swizzle"),
        ("sm_90a", "gpu.mbarrier_wait", "the other parity"),
        ("sm_90a", "gpu.mbarrier_expect", "bytes 49152 -> 49136"),
        ("sm_90a", "gpu.mbarrier_init", "count 8 -> 7"),
        ("sm_90a", "gpu.wgmma_wait", "pending 1 -> 2"),
        ("sm_90a", "gpu.wgmma_fence", "remove it"),
        ("sm_90a", "gpu.wgmma_descriptor", "swizzle 128 -> 64"),
        ("sm_90a", "gpu.kernel", "swizzle of A_map 128 -> 0"),
    ],
)
def test_the_mistakes_that_break_kernels_are_among_them(arch: str, op: str, change: str) -> None:
    assert any(m.op == op and m.change == change for m in mutants(module(arch)))


def test_a_mutant_of_another_module_is_refused() -> None:
    stranger = Mutant("no_such_kernel", 0, "remove it", "gpu.barrier", "?")
    with pytest.raises(ValueError, match="no place for"):
        mutated(module("sm_80"), stranger)


def test_a_mutant_keeps_its_location() -> None:
    assert all(m.place.startswith(EXAMPLE) for m in mutants(module("sm_90a")))
