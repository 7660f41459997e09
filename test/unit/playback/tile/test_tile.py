"""The tile level plays by itself, and its lowering does the same thread by thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.finish import finish
from polyc.passes.pipeline import ORDER, build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.fuzz.kernels import TYPES, graph
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
TILE = "gpu-multi-version-buffers"
"""The last pass after which a program is still of whole tiles."""


def lowered(text: str, arch: str, until: str | None = None) -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, text, "tile.mlir")
    for name in ORDER:
        build(name, arch).apply(ctx, module)
        if name == until:
            break
    return gpu_module_of(module)


def whole(element: str, *shapes: tuple[int, ...]) -> list[Array]:
    """Small integers: every sum is exact, in any order."""
    rng = np.random.default_rng(shapes[0])
    return [rng.integers(-2, 3, s).astype(np.float32).astype(TYPES[element]) for s in shapes]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "until",
    [
        "region-to-gpu",
        "gpu-layout-inference",
        TILE,
        "gpu-warp-specialize",
        "gpu-inject-pipeline",
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("sizes", [(136, 264, 72), (33, 47, 70), (1, 8, 8), (5, 6, 0)])
def test_every_step_of_the_tile_level_is_the_product(
    sizes: tuple[int, int, int], arch: str, until: str
) -> None:
    m, n, k = sizes
    a, b, bias = whole("f16", (m, k), (k, n), (n,))
    module = lowered(graph("f16", "nn", "bias relu"), arch, until)
    want = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32), 0)
    values = {"M": m, "N": n, "K": k}
    for variant in module.dispatch().variants():
        if all(fact.holds(values) for fact in variant.facts.data):
            (found,) = tile.run(module, [a, b, bias], values, variant.variant_name)
            np.testing.assert_array_equal(found, want.astype(np.float16))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("arch", "order", "element"),
    # The element type is a word in the instructions: each meets half of the storage orders.
    [
        (arch, order, [*TYPES][(i + j) % len(TYPES)])
        for i, arch in enumerate(("sm_80", "sm_90a"))
        for j, order in enumerate(("nn", "nt", "tn", "tt"))
    ],
)
def test_the_lowering_does_what_the_tiles_say(arch: str, order: str, element: str) -> None:
    """Every storage order and type: the simulated threads give the tiles' numbers, exactly."""
    m, n, k = 72, 136, 104
    a = (k, m) if order[0] == "t" else (m, k)
    b = (n, k) if order[1] == "t" else (k, n)
    inputs, values = whole(element, a, b, (n,)), {"M": m, "N": n, "K": k}
    text = graph(element, order, "bias relu")
    (expected,) = tile.run(lowered(text, arch, TILE), inputs, values)
    result = simulate(lowered(text, arch), inputs, values)
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], expected)


def test_what_is_below_the_tile_level_is_refused() -> None:
    module = lowered(graph("f16", "nn", "none"), "sm_90a", "gpu-lower-barriers")
    inputs = whole("f16", (8, 8), (8, 8))
    with pytest.raises(PolycError, match=r"gpu\.\w+ is not of the tile level") as caught:
        tile.run(module, inputs, {"M": 8, "N": 8, "K": 8})
    assert caught.value.kind == "NotPlayed"


ROLES = """gpu.module @m arch "sm_90a" symbols [N] {
  gpu.kernel @k(%X: !gpu.global<[N, 8], f32> = tensor 0, %Y: !gpu.global<[N, 8], f32> = tensor 1, %N: index = symbol N) threads 384 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %x = gpu.shared_tile : !gpu.shared<[1, 8], f32, ring 2>
    %ring = gpu.ring consumers 2 : !gpu.ring<2>
    %turn = gpu.order_barrier : !gpu.order<2>
    gpu.roles consumers 2 independent registers [0, 0] single_thread producer {
      scf.for %i = %zero to %N step %one {
        %slot = affine.apply affine_map<(i) -> (i mod 2)> (%i)
        gpu.ring_acquire %ring[%i] : !gpu.ring<2>
        gpu.copy %X[%i, %zero] to %x slot %slot loader "tma" signal %ring : !gpu.ring<2> at %i : !gpu.global<[N, 8], f32>, !gpu.shared<[1, 8], f32, ring 2>
      }
      gpu.yield
    } consumer (%w) {
      %f = gpu.fragment : !gpu.fragment<[1, 8], f32>
      scf.for %i = %zero to %N step %one {
        %slot = affine.apply affine_map<(i) -> (i mod 2)> (%i)
        gpu.ring_wait %ring[%i] : !gpu.ring<2>
        gpu.copy %x slot %slot to %f : !gpu.shared<[1, 8], f32, ring 2>, !gpu.fragment<[1, 8], f32>
        gpu.ring_release %ring[%i] : !gpu.ring<2>
        gpu.order_enter %turn[%w] : !gpu.order<2>
        gpu.atomic "add" %f to %Y[%i, %zero] : !gpu.fragment<[1, 8], f32>, !gpu.global<[N, 8], f32>
        gpu.order_leave %turn[%w] : !gpu.order<2>
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.kernel @clear(%Y: !gpu.global<[N, 8], f32> = tensor 1, %N: index = symbol N) threads 32 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %none = arith.constant 0.0 : f32
    %f = gpu.fragment : !gpu.fragment<[1, 8], f32>
    gpu.fill %none, %f : !gpu.fragment<[1, 8], f32>
    scf.for %i = %zero to %N step %one {
      gpu.copy %f to %Y[%i, %zero] : !gpu.fragment<[1, 8], f32>, !gpu.global<[N, 8], f32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N, 8], f32>) -> (Y: !gpu.global<[N, 8], f32>) {
    gpu.sequence @s align [16, 16] {
      gpu.launch @clear grid [1]
      gpu.launch @k grid [1]
    }
  }
}"""  # noqa: E501


def played(*edits: tuple[str, str], rows: int = 9) -> tuple[Array, Array]:
    text = ROLES
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    module = gpu_module_of(parse_text(make_context(), text, "roles.mlir"))
    x = np.arange(8 * rows, dtype=np.float32).reshape(rows, 8)
    (y,) = tile.run(module, [x], {"N": rows})
    return x, y


def test_roles_wait_for_each_other() -> None:
    """Two warpgroups read every slot, before it is filled again, and add what they read."""
    x, y = played()
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("edit", "waits"),
    [
        (("        gpu.ring_release %ring[%i] : !gpu.ring<2>\n", ""), "gpu.ring_acquire"),
        (("ring_wait %ring[%i]", "ring_wait %ring[%N]"), "gpu.ring_wait"),
        (("order_leave %turn[%w]", "order_leave %turn[%zero]"), "gpu.order_enter"),
        (("consumers 2 : !gpu.ring<2>", "consumers 3 : !gpu.ring<2>"), "gpu.ring_acquire"),
    ],
)
def test_roles_that_wait_for_ever_are_named(edit: tuple[str, str], waits: str) -> None:
    with pytest.raises(
        PolycError, match=f"every role that has not ended waits: .*{waits}"
    ) as caught:
        played(edit)
    assert caught.value.kind == "Deadlock"


def test_what_a_role_refuses_is_told() -> None:
    with pytest.raises(PolycError, match=r"gpu\.thread_id is not of the tile level"):
        played(("      %f = gpu.fragment", "      %t = gpu.thread_id\n      %f = gpu.fragment"))


def test_scalars_of_a_map() -> None:
    """A select, a comparison and a sigmoid are the tiles' own, NaN included."""
    text = """gpu.module @m arch "sm_80" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], f32> = tensor 0, %Y: !gpu.global<[M, N], f32> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %i, %j = gpu.tile_coordinates[%M, %N] tile <16, 8> raster "row" 1
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[16, 8], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[16, 8], f32>
    gpu.map %acc : !gpu.fragment<[16, 8], f32> origin [%i, %j] ins(%X : !gpu.global<[M, N], f32> affine_map<(d0, d1)[s0, s1] -> (s0 + d0, s1 + d1)>) outs(%Y : !gpu.global<[M, N], f32> affine_map<(d0, d1)[s0, s1] -> (s0 + d0, s1 + d1)>) {
    ^bb0(%a: f32, %x: f32):
      %positive = arith.cmpf ogt, %x, %a : f32
      %e = math.exp %x : f32
      %y = arith.select %positive, %e, %x : f32
      gpu.yield %y : f32
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[M, N], f32>) {
    gpu.launch @k align [4, 4] grid [(M + 15) floordiv 16, (N + 7) floordiv 8]
  }
}"""  # noqa: E501
    module = gpu_module_of(parse_text(make_context(), text, "map.mlir"))
    x = np.random.default_rng(3).standard_normal((33, 21)).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -np.inf
    (found,) = tile.run(module, [x], {"M": 33, "N": 21})
    np.testing.assert_array_equal(found, np.where(x > 0, np.exp(x), x))


LOOPING = """gpu.module @m arch "sm_80" symbols [N] {
  gpu.kernel @k(%X: !gpu.global<[N], i32> = tensor 0, %Y: !gpu.global<[N], i32> = tensor 1, %N: index = symbol N) threads 32 {
    %i = gpu.block_id
    %zero = arith.constant 0 : i32
    %low = arith.constant 0 : index
    %step = arith.constant 2 : index
    %acc = gpu.fragment : !gpu.fragment<[1, 32], i32, #gpu.fragment_layout<threads 32, registers 1, affine_map<(t, r) -> (0, t)>>>
    gpu.fill %zero, %acc : !gpu.fragment<[1, 32], i32, #gpu.fragment_layout<threads 32, registers 1, affine_map<(t, r) -> (0, t)>>>
    gpu.map %acc : !gpu.fragment<[1, 32], i32, #gpu.fragment_layout<threads 32, registers 1, affine_map<(t, r) -> (0, t)>>> origin [%i] ins(%X : !gpu.global<[N], i32> affine_map<(d0, d1)[s0] -> (s0 * 32 + d1)>) outs() {
    ^bb0(%a: i32, %x: i32):
      %n = arith.index_cast %x : i32 to index
      %sum, %last = scf.for %t = %low to %n step %step iter_args(%s = %a, %l = %x) -> (i32, i32) {
        %y = gpu.load_global %X[%t : index] : !gpu.global<[N], i32> -> i32
        %more = arith.addi %s, %y : i32
        scf.yield %more, %y : i32, i32
      }
      %j = gpu.tile_index 1
      %at = affine.apply affine_map<(d0)[s0] -> (s0 * 32 + d0)>(%j)[%i]
      %there = arith.cmpi slt, %at, %N : index
      %both = arith.addi %sum, %last : i32
      gpu.store_global %both, %Y[%at : index] if %there : i32, !gpu.global<[N], i32>
      gpu.yield
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], i32>) -> (Y: !gpu.global<[N], i32>) {
    gpu.launch @k align [4, 4] grid [N ceildiv 32]
  }
}"""  # noqa: E501


def test_a_loop_of_a_map_goes_as_far_as_each_element_says() -> None:
    module = parse_text(make_context(), LOOPING, "map.mlir")
    x = (np.arange(45) * 11 % 23).astype(np.int32)
    walked = [x[0:n:2] for n in x.tolist()]
    wanted = [own.sum() + (own[-1] if own.size else n) for own, n in zip(walked, x, strict=True)]
    (found,) = tile.run(gpu_module_of(module), [x], {"N": 45})
    np.testing.assert_array_equal(found, wanted)
    finish(module)
    result = simulate(gpu_module_of(module), [x], {"N": 45})
    result.check()
    np.testing.assert_array_equal(result.outputs[0], wanted)


def test_a_loop_of_a_map_writes_nothing() -> None:
    """Its elements go on together, and what one wrote another would see too early."""
    line = "        %more ="
    store = "gpu.store_global %y, %Y[%t : index] : i32, !gpu.global<[N], i32>"
    module = parse_text(make_context(), LOOPING.replace(line, f"{store}\n{line}"), "map.mlir")
    with pytest.raises(PolycError, match=r"a loop of a map's body has no gpu\.store_global"):
        tile.run(gpu_module_of(module), [np.full(45, 3, np.int32)], {"N": 45})


def test_no_kernel_for_the_sizes() -> None:
    module = lowered(graph("f16", "nn", "none"), "sm_90a", "region-to-gpu")
    with pytest.raises(PolycError, match="takes M=8, N=7, K=8"):
        tile.run(module, whole("f16", (8, 8), (8, 7)), {"M": 8, "N": 7, "K": 8}, "gemm_tma")


def test_empty_outputs_need_no_kernel() -> None:
    module = lowered(graph("f16", "nn", "none"), "sm_90a", "region-to-gpu")
    (found,) = tile.run(module, whole("f16", (0, 8), (8, 8)), {"M": 0, "N": 8, "K": 8})
    assert found.shape == (0, 8)
