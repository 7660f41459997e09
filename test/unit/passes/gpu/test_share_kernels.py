"""``gpu-share-kernels``: kernels that are alike are one, and programs compute what they did."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp, WorkspaceOp
from polyc.dialects.gpu.module import gpu_module_of
from polyc.passes.finish import finish
from polyc.passes.gpu.share_kernels import ShareKernels, ShareLaunches
from polyc.playback.gpu.simulate import simulate
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.structure import structure
from polyc.runtime.lowered import lowered
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, kernel, only, parsed
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.play import play_op
from polyc.tools.registry import make_context


def layers(count: int, last: int = 64) -> str:
    """A chain of layers, each a product and its hyperbolic tangents, the last with other sizes."""
    widths = [64] * count + [last]
    kinds = [f"!frontend.tensor<[16, {width}], f16>" for width in widths]
    weights = [f"!frontend.tensor<[{k}, {n}], f16>" for k, n in pairwise(widths)]
    given = ", ".join(["%x0: " + kinds[0], *(f"%w{i}: {w}" for i, w in enumerate(weights))])
    lines = [f"frontend.graph @net({given}) -> {kinds[-1]} {{"]
    for i, weight in enumerate(weights):
        signature = f"({kinds[i]}, {weight}) -> {kinds[i + 1]}"
        lines.append(f"  %p{i} = frontend.gemm %x{i}, %w{i} {{acc = f32}} : {signature}")
        lines.append(f"  %x{i + 1} = frontend.elementwise tanh %p{i} : {kinds[i + 1]}")
    return "\n".join([*lines, f"  frontend.output %x{count} : {kinds[-1]}", "}"])


def tiles(text: str, arch: str) -> tuple[ModuleOp, ModuleOp]:
    """A program as it is written, and its tiles."""
    module = parse_text(make_context(), text, "net.mlir")
    return module, Compilation(make_context(), module.clone(), arch).run("tiles").module


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_layers_are_one_kernel_and_compute_what_they_did(arch: str) -> None:
    written, module = tiles(layers(4), arch)
    before = [op.kernel_name for op in find(module, LaunchOp)]
    assert len(set(before)) == len(before) >= 4
    assert rewrite(module, [ShareKernels()])
    verify(module)
    launches = find(module, LaunchOp)
    # The first layer reads the graph's input, and is as the others are.
    assert len(launches) == len(before)
    assert len(find(module, KernelOp)) == len(before) // 4
    assert sum(op.rebinds is not None for op in launches) == len(before) * 3 // 4
    assert not rewrite(module, [ShareKernels()])
    random = np.random.default_rng(3)
    given = [random.standard_normal((16, 64)).astype(np.float16)]
    given += [(random.standard_normal((64, 64)) / 4).astype(np.float16) for _ in range(4)]
    right = meant(written, given, {})
    played = play_op(gpu_module_of(module), given, {})
    assert played is not None
    assert_agree(played, right, "tiles")
    finish(module)
    found = simulate(module, given, {})
    assert not found.findings
    assert_agree(found.outputs, right, "simulated")


def test_a_layer_of_other_sizes_is_a_kernel_of_its_own() -> None:
    _, module = tiles(layers(3, last=32), "sm_80")
    count = len(find(module, KernelOp))
    rewrite(module, [ShareKernels()])
    assert len(find(module, KernelOp)) == count * 2 // 3


def test_the_host_is_told_the_memory_of_each_launch() -> None:
    _, module = tiles(layers(3), "sm_90a")
    count = len(find(module, LaunchOp))
    found = lowered(gpu_module_of(module), lazily=True)
    assert len(found.described.kernels) == count // 3
    # What it is made from stays as it was.
    assert len(find(module, KernelOp)) == count
    steps = found.launches(0)
    assert len(steps) == count and len({step.grid.kernel for step in steps}) == count // 3
    sources = [tuple(one.source for one in step.arguments if not one.symbol) for step in steps]
    assert len(set(sources)) == count


def test_a_variant_that_is_one_launch_keeps_its_kernel() -> None:
    text = """
      gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
        gpu.launch @k align [4] grid [M]
        gpu.launch @l align [4] grid [M]
      }"""
    module = parsed(kernel("", dispatch=text))
    first = only(module, KernelOp)
    other = first.clone()
    other.sym_name = type(first.sym_name)("l")
    first.parent_block().insert_op_after(other, first)  # pyright: ignore[reportOptionalMemberAccess]
    assert structure(first, ("sym_name",)) == structure(other, ("sym_name",))
    assert not rewrite(module, [ShareKernels()])


# Launches that compute the same -----------------------------------------------------------------


def scattered(between: str, second: str = "i") -> str:
    """Two scatters that add rows, at one index or at two, with something between them."""
    kinds = "(!frontend.tensor<[9, 4], f32>, !frontend.tensor<[1500], i64>, "
    kinds += "!frontend.tensor<[1500, 4], f32>) -> !frontend.tensor<[9, 4], f32>"
    return f"""frontend.graph @g(%x: !frontend.tensor<[9, 4], f32>,
  %i: !frontend.tensor<[1500], i64>, %j: !frontend.tensor<[1500], i64>,
  %u: !frontend.tensor<[1500, 4], f32>)
  -> (Y: !frontend.tensor<[9, 4], f32>) {{
  %a = frontend.scatter add %x, %i, %u axis 0 : {kinds}
  {between}
  %y = frontend.scatter add %b, %{second}, %u axis 0 : {kinds}
  frontend.output %y : !frontend.tensor<[9, 4], f32>
}}"""


BETWEEN = "%b = frontend.elementwise tanh %a : !frontend.tensor<[9, 4], f32>"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("second", ["i", "j"])
def test_scatters_at_one_index_have_one_set_of_lists(second: str, arch: str) -> None:
    """Those of two indices have one each; the results are what they were."""
    written, module = tiles(scattered(BETWEEN, second), arch)
    names = [op.kernel_name.rpartition("_")[2] for op in find(module, LaunchOp)]
    assert names.count("links") == names.count("parts") == 2
    spaces = len(find(module, WorkspaceOp))
    rewrite(module, [ShareKernels()])
    assert rewrite(module, [ShareLaunches()]) == (second == "i")
    verify(module)
    names = [op.kernel_name.rpartition("_")[2] for op in find(module, LaunchOp)]
    # Parts of the same updates are the same too.
    many = 1 if second == "i" else 2
    assert [names.count(name) for name in ("links", "order", "fill", "parts")] == [many] * 4
    assert (len(find(module, WorkspaceOp)) < spaces) == (second == "i")
    assert not rewrite(module, [ShareLaunches()])
    random = np.random.default_rng(5)
    given = [random.standard_normal((9, 4)).astype(np.float32)]
    given += [random.integers(-2, 11, 1500), random.integers(-2, 11, 1500)]
    given += [random.standard_normal((1500, 4)).astype(np.float32)]
    right = meant(written, given, {})
    finish(module)
    found = simulate(module, given, {})
    assert not found.findings
    assert_agree(found.outputs, right, "simulated")
