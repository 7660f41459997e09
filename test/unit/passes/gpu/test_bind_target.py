"""``gpu-bind-target``: what an architecture does not have is refused by name."""

from __future__ import annotations

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp
from polyc.dialects.gpu.target import Limits
from polyc.passes.gpu.bind_target import BindTarget
from polyc.rewriting.driver import rewrite
from polyc.test.support.gpu_text import assert_refused, kernel, only, parsed, run

PASS = "gpu-bind-target"
TENSOR, TILE = "!gpu.global<[M, K], f16, align 16>", "!gpu.shared<[64, 64], f16>"
USES = {
    "wgmma": f"""
    %t = gpu.shared_tile : {TILE}
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)>
      into %acc mma "wgmma" warp_tile <64, 64> : {TILE}, {TILE}, !gpu.fragment<[64, 64], f32>""",
    "tma": f"""
    %t = gpu.shared_tile : {TILE}
    gpu.copy %A[%M, %M] to %t loader "tma" : {TENSOR}, {TILE}""",
    "warpgroup roles": """
    gpu.roles consumers 1 registers [0, 0] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }""",
}
ARGS = f"%A: {TENSOR} = tensor 0, %M: index = symbol M"


@pytest.mark.parametrize("use", USES)
def test_bind_target_refuses_what_sm_80_has_not(use: str) -> None:
    text = kernel(USES[use], ARGS, arch="sm_80")
    message = (
        f"{use} needs sm_90a and the module is for sm_80; "
        "choose mma.sync with cp_async or register loaders"
    )
    markers = {"wgmma": "gpu.contract", "tma": "gpu.copy", "warpgroup roles": "gpu.roles"}
    assert_refused(text, "NotOnArch", message, markers[use], PASS)


@pytest.mark.parametrize("use", USES)
def test_bind_target_takes_it_on_sm_90a(use: str) -> None:
    module = only(run(kernel(USES[use], ARGS), PASS), ModuleOp)
    assert module.target is not None and module.target.data == Limits(232448, 65536, 1024)


def test_bind_target_of_an_architecture_that_is_not_known() -> None:
    """The verifier refuses it too; the pattern may run on what was not verified."""
    module = parsed(kernel("", arch="sm_70"))
    with pytest.raises(PolycError) as caught:
        rewrite(module, [BindTarget()])
    assert (caught.value.kind, caught.value.message) == (
        "UnknownArch",
        '"sm_70" is none of sm_80, sm_90a',
    )
    assert caught.value.place is not None and caught.value.place.line == 1
