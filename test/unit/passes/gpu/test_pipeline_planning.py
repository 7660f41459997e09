"""``gpu-pipeline-planning``: loaders that fit, and the refusal of those that do not."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu import tile
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, run, unchanged

PASS = "gpu-pipeline-planning"


def copy(align: int, loader: str = "", element: str = "f16", arch: str = "sm_90a") -> str:
    promised = f", align {align}" if align else ""
    tensor = f"!gpu.global<[M, K], {element}{promised}>"
    shared = f"!gpu.shared<[16, 16], {element}>"
    how = f' loader "{loader}"' if loader else ""
    return kernel(
        f"""
    %t = gpu.shared_tile : {shared}
    gpu.copy %A[%M, %M] to %t{how} : {tensor}, {shared}""",
        f"%A: {tensor} = tensor 0, %M: index = symbol M",
        arch=arch,
    )


@pytest.mark.parametrize(
    ("arch", "element", "align", "loader"),
    [
        ("sm_90a", "f16", 16, "tma"),
        ("sm_90a", "f16", 64, "tma"),
        ("sm_90a", "f16", 8, "cp_async"),
        ("sm_90a", "f16", 4, "cp_async"),
        ("sm_90a", "f16", 2, "register"),
        ("sm_90a", "f16", 0, "register"),
        ("sm_90a", "f32", 0, "cp_async"),
        ("sm_80", "f16", 16, "cp_async"),
        ("sm_80", "f16", 0, "register"),
    ],
)
def test_choose_loader(arch: str, element: str, align: int, loader: str) -> None:
    chosen = only(run(copy(align, "", element, arch), PASS), tile.CopyOp).loader
    assert chosen is not None and chosen.data == loader


@pytest.mark.parametrize(
    ("loader", "align"), [("tma", 16), ("cp_async", 4), ("cp_async", 16), ("register", 0)]
)
def test_choose_loader_keeps_the_authors(loader: str, align: int) -> None:
    unchanged(copy(align, loader), PASS)


@pytest.mark.parametrize(
    ("loader", "align", "need", "promised"), [("tma", 8, 16, 8), ("cp_async", 0, 4, 2)]
)
def test_choose_loader_refuses_rows_that_are_too_loose(
    loader: str, align: int, need: int, promised: int
) -> None:
    kind = f"!gpu.global<[M, K], f16{f', align {align}' if align else ''}>"
    message = (
        f"{loader} needs rows aligned to {need} bytes and {kind} promises {promised}; "
        "use a narrower loader or assume the row length"
    )
    assert_refused(copy(align, loader), "MisalignedCopy", message, "gpu.copy", PASS)


def test_choose_loader_needs_to_know_the_architecture() -> None:
    text = """
%A = "builtin.unrealized_conversion_cast"() : () -> !gpu.global<[M, K], f16>
%i = arith.constant 0 : index
%t = gpu.shared_tile : !gpu.shared<[16, 16], f16>
gpu.copy %A[%i, %i] to %t : !gpu.global<[M, K], f16>, !gpu.shared<[16, 16], f16>
"""
    assert_refused(text, "NoTarget", "a tile program stands in a gpu.module", "gpu.copy", PASS)


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_plan_stages(stages: int) -> None:
    """Copies at 0, the contract stages - 1 later; what an author said stays."""
    tensor, shared = "!gpu.global<[M, K], f16>", "!gpu.shared<[16, 16], f16>"
    acc = "!gpu.fragment<[16, 16], f32>"
    contract = (
        "gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> "
        'into %acc mma "mma.sync" warp_tile <16, 16>'
    )
    text = kernel(
        f"""
    %t = gpu.shared_tile : {shared}
    %acc = gpu.fragment : {acc}
    gpu.pipeline %k, %i = to %M step 16 stages {stages} {{
      gpu.copy %A[%M, %k] to %t loader "register" : {tensor}, {shared}
      gpu.copy %A[%M, %k] to %t loader "register" stage {stages // 2} : {tensor}, {shared}
      {contract} : {shared}, {shared}, {acc}
      {contract} stage 0 : {shared}, {shared}, {acc}
    }}""",
        f"%A: {tensor} = tensor 0, %M: index = symbol M",
    )
    module = run(text, PASS)
    ops = [*find(module, tile.CopyOp), *find(module, tile.ContractOp)]
    found = [None if op.stage is None else op.stage.value.data for op in ops]
    assert found == [0, stages // 2, stages - 1, 0]
