"""Refusals that no program brings about: the system's, the driver's, and of passes from outside."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.passes.pipeline import import_pass
from polyc.passes.support.gpu.pipeline_parts import slot_ops
from polyc.playback.gpu import arithmetic
from polyc.runtime import driver, nvrtc_library
from polyc.tools.errors import as_polyc_error
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.polyc import main as polyc


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, "DiskFull"), (errno.EIO, "InputOutput")])
def test_failures_of_the_system(code: int, kind: str) -> None:
    error = as_polyc_error(OSError(code, "it failed", "out.cu"))
    assert error.kind == kind and error.place is not None and error.place.file == "out.cu"


def test_an_error_of_xdsl_without_a_kind() -> None:
    assert as_polyc_error(DiagnosticException("no")).format() == "error[Failed]: no"


class Refusing(ModulePass):
    name = "refusing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise DiagnosticException("not today")


def test_a_pass_that_refuses_without_a_kind() -> None:
    with pytest.raises(PolycError, match=r"error\[PassFailed\]: refusing: not today"):
        run_pass(Context(), Refusing(), ModuleOp([]))


def test_a_pass_that_is_not_installed() -> None:
    with pytest.raises(PolycError, match=r"error\[NotAvailable\]: pass x is not available"):
        import_pass("x", "polyc.passes.no_such_module")


def test_a_type_that_is_not_simulated() -> None:
    with pytest.raises(PolycError, match=r"error\[NotSimulated\]: .* no integers like i7"):
        arithmetic.dtype_of(IntegerType(7))


def test_nothing_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    path = "test/simulator/block_reduction.mlir"
    assert polyc(["simulate", path, "--set=M=1", "--set=N=40", "--check"]) == 1
    assert "error[NothingToCompare]" in capsys.readouterr().err


# Without a GPU, its library in the place of a GPU ----------------------------------------


def test_nvrtc_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc_library, "places", lambda: ["/nowhere/libnvrtc.so"])
    with pytest.raises(PolycError, match=r"error\[NoNVRTC\]: NVRTC cannot be loaded .*nowhere"):
        nvrtc_library.library.__wrapped__()  # pyright: ignore[reportFunctionMemberAccess]


def answers_700(*_: object) -> int:
    return 700


class Library:
    """A driver whose calls answer 700."""

    def __getattr__(self, name: str) -> Any:
        return answers_700


def test_a_call_of_the_driver_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", Library)
    with pytest.raises(PolycError, match=r"error\[DriverFailed\]: cuInit answered error 700"):
        driver.call("cuInit", 0)


def test_a_kernel_that_does_not_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", Library)
    function: Any = SimpleNamespace(name="k", handle=None)
    launch = object.__new__(driver.Launch)
    config = SimpleNamespace(grid=(1, 1, 1), block=(64, 1, 1), shared=0, stream=0)
    given = {"function": function, "config": None, "_config": config, "_handle": None}
    for name, value in {**given, "_pointers": None, "_launch": answers_700}.items():
        setattr(launch, name, value)
    with pytest.raises(PolycError, match=r"error\[LaunchFailed\]: kernel k with grid \[1, 1, 1\]"):
        launch.run()


SHARED_SLOT = """
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16> = tensor 0, %K: index = symbol K) threads 256 {
    %two = arith.constant 2 : index
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
    gpu.pipeline %k0, %i = to %K step 64 stages 2 {
      %s = arith.remui %i, %two : index
      gpu.copy %A[%s, %k0] to %a slot %s loader "tma" stage 0
          : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
    }
    gpu.return
  }
}
"""


def test_a_slot_that_is_a_coordinate_too(ctx: Context) -> None:
    """In a persistent kernel slots count on from tile to tile, and coordinates do not."""
    module = parse_text(ctx, SHARED_SLOT, "k.mlir")
    (pipeline,) = (op for op in module.walk() if isinstance(op, tile.PipelineOp))
    with pytest.raises(
        PolycError, match=r"k.mlir:7:\d+: error\[SlotShared\]: this value is a slot"
    ):
        slot_ops(list(pipeline.body.block.ops))
