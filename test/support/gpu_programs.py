"""The tile programs that several tests of the pipeline's passes start from."""

from __future__ import annotations

from polyc.test.support.gpu_text import kernel

TENSOR = "!gpu.global<[M, K], f16, align 16>"
ARGS = f"%A: {TENSOR} = tensor 0, %M: index = symbol M, %K: index = symbol K"


def pipeline(
    mma: str = "mma.sync",
    loader: str = "cp_async",
    stages: int = 3,
    threads: int = 128,
    arch: str = "sm_90a",
    before: str = "",
    after: str = "",
    inside: str = "",
    copies: bool = True,
    contracts: bool = True,
    tile: str = "[64, 64], f16",
    acc: str = "[64, 64], f32",
    warp: str | None = None,
    registers: str = "",
    wrap: str = "",
) -> str:
    """A pipeline that contracts one tile of A with itself; ``wrap`` is an op around it."""
    shared, fragment = f"!gpu.shared<{tile}>", f"!gpu.fragment<{acc}>"
    warp = warp or ("<64, 64>" if mma == "wgmma" else "<32, 32>")
    body: list[str] = []
    if copies:
        body.append(f'gpu.copy %A[%M, %k] to %t loader "{loader}" : {TENSOR}, {shared}')
    if inside:
        body.append(inside)
    if contracts:
        body.append(
            "gpu.contract %t affine_map<(m, n, k) -> (m, k)>, "
            "%t affine_map<(m, n, k) -> (k, n)> "
            f'into %acc mma "{mma}" warp_tile {warp} : {shared}, {shared}, {fragment}'
        )
    loop = f"gpu.pipeline %k, %i = to %K step 64 stages {stages} {{\n      "
    loop += "\n      ".join(body) + "\n    }"
    return kernel(
        f"""
    %t = gpu.shared_tile : {shared}
    %acc = gpu.fragment : {fragment}
    {before}
    {f"{wrap} {{ {loop} }}" if wrap else loop}
    {after}""",
        ARGS,
        threads=threads,
        arch=arch,
        registers=registers,
    )
