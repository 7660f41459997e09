"""``mma.sync`` contracts in steps over k: from shared memory, from registers, and cleared first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.finish import finished
from polyc.playback.gpu.simulate import simulate
from polyc.test.support.gpu_text import assert_refused, find, only, parsed

Array = NDArray[Any]

SHAPES = [
    ((16, 16, 16), (16, 16)),
    ((32, 48, 32), (16, 48)),
    ((64, 32, 64), (32, 32)),
    ((96, 64, 48), (48, 64)),
]
"""(m, n, k) and the warp_tile; a warp has 1, 2 and 3 rows of blocks."""


def program(
    sizes: tuple[int, int, int], warp: tuple[int, int], body: str, rhs: str = "[K, N]"
) -> str:
    """C = old + A · B on one tile of each; ``body`` computes it in %acc from %A and %b."""
    m, n, k = sizes
    b = f"[{k}, {n}]" if rhs == "[K, N]" else f"[{n}, {k}]"
    acc = f"!gpu.fragment<[{m}, {n}], f32>"
    shared = f"!gpu.shared<{b}, f16>"
    to = "(k, n)" if rhs == "[K, N]" else "(n, k)"
    contract = (
        f"affine_map<(m, n, k) -> {to}> into %acc {{clear}} mma "
        f'"mma.sync" warp_tile <{warp[0]}, {warp[1]}>'
    )
    body = body.replace("CONTRACT", contract).replace("SHARED", shared).replace("ACC", acc)
    return f"""gpu.module @g arch "sm_80" symbols [] {{
  gpu.kernel @k(%A: !gpu.global<[{m}, {k}], f16> = tensor 0, %B: !gpu.global<{b}, f16> = tensor 1,
      %C: !gpu.global<[{m}, {n}], f32> = tensor 2) threads {32 * (m // warp[0]) * (n // warp[1])} {{
    %o = arith.constant 0 : index
    %three = arith.constant 3.0 : f32
    %b = gpu.shared_tile : {shared}
    %acc = gpu.fragment : {acc}
    gpu.fill %three, %acc : {acc}
    gpu.copy %B[%o, %o] to %b loader "register" : !gpu.global<{b}, f16>, {shared}
    {body}
    gpu.map %acc : {acc} origin [] ins()
        outs(%C : !gpu.global<[{m}, {n}], f32> affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }}
    gpu.return
  }}
  gpu.dispatch (A: !gpu.global<[{m}, {k}], f16>, B: !gpu.global<{b}, f16>)
      -> (C: !gpu.global<[{m}, {n}], f32>) {{
    gpu.launch @k align [16, 16, 16] grid [1]
  }}
}}
"""


def from_registers(m: int, k: int) -> str:
    """The left operand as a fragment that a map fills."""
    space, left = f"!gpu.fragment<[{m}, {k}], f32>", f"!gpu.fragment<[{m}, {k}], f16>"
    return f"""%s = gpu.fragment : {space}
    %p = gpu.fragment : {left}
    gpu.fill %three, %s : {space}
    gpu.map %s : {space} origin []
        ins(%A : !gpu.global<[{m}, {k}], f16> affine_map<(i, j) -> (i, j)>)
        outs(%p : {left} affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%x: f32, %y: f16):
      gpu.yield %y : f16
    }}
    gpu.barrier
    gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %b CONTRACT : {left}, SHARED, ACC"""


def from_shared(m: int, k: int) -> str:
    left = f"!gpu.shared<[{m}, {k}], f16>"
    return f"""%a = gpu.shared_tile : {left}
    gpu.copy %A[%o, %o] to %a loader "register" : !gpu.global<[{m}, {k}], f16>, {left}
    gpu.barrier
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b CONTRACT : {left}, SHARED, ACC"""


def computed(text: str, sizes: tuple[int, int, int], rhs: str) -> tuple[Array, Array]:
    """What the kernel makes of small integers, and A · B."""
    m, n, k = sizes
    source = np.random.default_rng(m + n + k)
    a, b = (source.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
    module = finished(only(parsed(text), ModuleOp))
    result = simulate(module, [a, b if rhs == "[K, N]" else np.ascontiguousarray(b.T)], {})
    result.check()
    return result.outputs[0], a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.turns(3)
@pytest.mark.parametrize("clear", ["", "clear"])
@pytest.mark.parametrize("rhs", ["[K, N]", "[N, K]"])
@pytest.mark.parametrize(("sizes", "warp"), SHAPES)
@pytest.mark.parametrize("left", ["registers", "shared"])
def test_a_contract_adds_the_product_or_is_it(
    left: str, sizes: tuple[int, int, int], warp: tuple[int, int], rhs: str, clear: str
) -> None:
    m, _, k = sizes
    body = from_registers(m, k) if left == "registers" else from_shared(m, k)
    text = program(sizes, warp, body, rhs).replace("{clear}", clear)
    found, product = computed(text, sizes, rhs)
    assert (found == product + (0 if clear else 3)).all()


def test_a_left_operand_in_registers_is_not_loaded() -> None:
    sizes, warp = (32, 32, 32), (16, 32)
    counts: list[int] = []
    for body in (from_registers(32, 32), from_shared(32, 32)):
        text = program(sizes, warp, body).replace("{clear}", "")
        module = finished(only(parsed(text), ModuleOp))
        counts.append(len({op.registers for op in find(module, hw.LdmatrixOp)}))
    assert counts == [1, 2]


def test_warps_that_share_rows_of_a_left_operand_in_registers_are_refused() -> None:
    text = program((32, 32, 32), (16, 16), from_registers(32, 32)).replace("{clear}", "")
    message = (
        "a warp that holds rows of the left operand multiplies them with all 32 columns; make the "
        "warp_tile 16x32"
    )
    assert_refused(text, "LayoutConflict", message, "gpu.contract", "gpu-layout-inference")
