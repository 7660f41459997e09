"""Variants come to the hardware level when they are asked for, and are then what they are whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.module import gpu_module_of
from polyc.lowering.gpu_to_cuda import cuda_unit
from polyc.passes import on_demand
from polyc.passes.finish import finished, is_finished
from polyc.passes.on_demand import OnDemand
from polyc.test.support.gpu_text import find, kernel, only, parsed
from polyc.test.support.root import ROOT
from polyc.tools.pipeline import Compilation

SHARED = """
  gpu.dispatch (A: !gpu.global<[M, K], f16>) -> () {
    gpu.launch @k when (M >= 64) align [2] grid [M]
    gpu.launch @k align [2] grid [K]
  }"""


@pytest.fixture
def finishes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many kernels each call of ``finish`` has."""
    seen: list[int] = []
    own: Callable[..., None] = on_demand.finish

    def counted(module: object) -> None:
        assert isinstance(module, on_demand.ModuleOp)
        seen.append(len(find(module, KernelOp)))
        own(module)

    monkeypatch.setattr(on_demand, "finish", counted)
    return seen


def tiles(example: str, arch: str) -> gpu.ModuleOp:
    job = Compilation.of_file(ROOT / "examples" / f"{example}.mlir", arch)
    return gpu_module_of(job.run("tiles").module)


def test_a_kernel_by_itself_is_what_it_is_beside_the_others(finishes: list[int]) -> None:
    module = tiles("softmax", "sm_90a")
    some = ("softmax_warp_512", "softmax_kept", "softmax_any")
    for op in [*module.dispatch().variants(), *module.kernels()]:
        if (op.sym_name.data if isinstance(op, KernelOp) else op.variant_name) not in some:
            op.detach()
    text, later = str(module), OnDemand(module)
    whole = finished(module)
    kernels = {k.sym_name.data: k for k in whole.kernels()}
    for number, name in ((0, some[0]), (2, some[2])):
        variant, own = later.variant(number)
        assert str(variant) == str(whole.dispatch().variants()[number])
        assert list(own) == [name] and cuda_unit(own[name]) == cuda_unit(kernels[name])
        assert later.kernel(name) is own[name]
        assert later.holding(name).dispatch().variants() == [variant]
    assert finishes == [1, 1]
    assert str(module) == text and not is_finished(module)


def test_variants_with_a_kernel_in_common_come_together(finishes: list[int]) -> None:
    later = OnDemand(only(parsed(kernel("", dispatch=SHARED)), gpu.ModuleOp))
    first, second = later.variant(0), later.variant(1)
    assert first[1]["k"] is second[1]["k"] and first[0] is not second[0]
    assert finishes == [1]


def test_what_cannot_be_made_is_refused_by_whom_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later, own = OnDemand(tiles("softmax", "sm_80")), on_demand.finish

    def refusing(module: on_demand.ModuleOp) -> None:
        if any(k.sym_name.data == "softmax_lanes" for k in find(module, KernelOp)):
            raise PolycError("ResourceExceeded", "too much")
        own(module)

    monkeypatch.setattr(on_demand, "finish", refusing)
    for _ in range(2):
        with pytest.raises(PolycError, match="too much"):
            later.variant(0)
    assert later.variant(1)[0].variant_name == "softmax_warp_128"
    for asked in (later.kernel, later.holding):
        with pytest.raises(KeyError, match="nothing"):
            asked("nothing")
