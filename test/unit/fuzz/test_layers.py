"""A short run of the random programs that ``make fuzz`` sends through the layers for long."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram, drawn
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text

PARTS, EACH = 3, examples(25)


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    reached = Counter[str]()
    for number in range(EACH):
        name = f"ci {part} {number}"
        assert layers.fault(name, reached) is None, name
    # Nearly all programs have a form at every layer, down to the tiles of their kernels.
    assert reached[layers.TO_TILES[-1]] >= 0.96 * EACH


FOUND: dict[str, tuple[str, dict[str, int]]] = {
    "a pad of a scalar": (
        """
frontend.graph @f(%x: !frontend.tensor<[N], f32>) -> (y: !frontend.tensor<[], f32>) {
  %0 = frontend.reduce sum %x axes [0] : !frontend.tensor<[N], f32> -> !frontend.tensor<[], f32>
  %1 = frontend.pad %0 low [] high [] value 1.5 : !frontend.tensor<[], f32> -> !frontend.tensor<[], f32>
  frontend.output %1 : !frontend.tensor<[], f32>
}
""",  # noqa: E501
        {"N": 4},
    ),
    "a slice of a size that multiplies symbols": (
        """
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>)
    -> (y: !frontend.tensor<[(M * N + 2) floordiv 3], f32>) {
  %0 = frontend.reshape %x : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M * N], f32>
  %1 = frontend.slice %0 [0:M * N:3]
      : !frontend.tensor<[M * N], f32> -> !frontend.tensor<[(M * N + 2) floordiv 3], f32>
  frontend.output %1 : !frontend.tensor<[(M * N + 2) floordiv 3], f32>
}
""",
        {"M": 3, "N": 5},
    ),
    "a number along a product of symbols that is 0": (
        """
frontend.graph @f(%x: !frontend.tensor<[K, N, 2], f32>) -> (y: !frontend.tensor<[K * N, 2], f32>) {
  %0 = frontend.reshape %x : !frontend.tensor<[K, N, 2], f32> -> !frontend.tensor<[K * N, 2], f32>
  %1 = frontend.constant -0.25 : !frontend.tensor<[], f32>
  %2 = frontend.elementwise mul %0, %1
      : (!frontend.tensor<[K * N, 2], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[K * N, 2], f32>
  frontend.output %2 : !frontend.tensor<[K * N, 2], f32>
}
""",  # noqa: E501
        {"K": 0, "N": 4},
    ),
    "an axis of one point that is reduced and stored": (
        """
frontend.graph @f(%x: !frontend.tensor<[K, N], f32>) -> (y: !frontend.tensor<[1, K, N], f32>) {
  %0 = frontend.reshape %x : !frontend.tensor<[K, N], f32> -> !frontend.tensor<[1, K, N], f32>
  %1 = frontend.layer_norm %0 axes [0, 1, 2] eps 0.25 : !frontend.tensor<[1, K, N], f32>
  frontend.output %1 : !frontend.tensor<[1, K, N], f32>
}
""",
        {"K": 2, "N": 3},
    ),
    "copies of a scalar that are summed": (
        """
frontend.graph @f(%x: !frontend.tensor<[N], f32>) -> (y: !frontend.tensor<[1], f32>) {
  %0 = frontend.reduce min %x axes [0] keepdims : !frontend.tensor<[N], f32> -> !frontend.tensor<[1], f32>
  %1 = frontend.concat %0, %0, %0 axis 0
      : (!frontend.tensor<[1], f32>, !frontend.tensor<[1], f32>, !frontend.tensor<[1], f32>) -> !frontend.tensor<[3], f32>
  %2 = frontend.reduce sum %1 axes [0] keepdims : !frontend.tensor<[3], f32> -> !frontend.tensor<[1], f32>
  frontend.output %2 : !frontend.tensor<[1], f32>
}
""",  # noqa: E501
        {"N": 4},
    ),
    "a row of one point": (
        """
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> (y: !frontend.tensor<[1, 1], f32>) {
  %0 = frontend.reduce min %x axes [0, 1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[1, 1], f32>
  %1 = frontend.log_softmax %0 axes [0, 1] : !frontend.tensor<[1, 1], f32>
  frontend.output %1 : !frontend.tensor<[1, 1], f32>
}
""",  # noqa: E501
        {"M": 2, "N": 3},
    ),
    "a product of no columns, stored in a narrow type and read": (
        """
frontend.graph @f(%a: !frontend.tensor<[3, 1], bf16>, %b: !frontend.tensor<[3, 0], bf16>)
    -> (y: !frontend.tensor<[1, 0], bf16>) {
  %0 = frontend.gemm %a, %b {acc = f32, transpose_a}
      : (!frontend.tensor<[3, 1], bf16>, !frontend.tensor<[3, 0], bf16>) -> !frontend.tensor<[1, 0], bf16>
  %1 = frontend.softmax %0 axes [0, 1] : !frontend.tensor<[1, 0], bf16>
  frontend.output %1 : !frontend.tensor<[1, 0], bf16>
}
""",  # noqa: E501
        {},
    ),
    "a slice of nothing beside what a pad added": (
        """
frontend.graph @f(%a: !frontend.tensor<[1, 6, 0], f32>) -> (y: !frontend.tensor<[2, 4, 0], f32>) {
  %0 = frontend.pad %a low [2, 2, 2] high [2, 0, 1] value 0.5
      : !frontend.tensor<[1, 6, 0], f32> -> !frontend.tensor<[5, 8, 3], f32>
  %1 = frontend.slice %0 [1:3, 0:8:2, 2:2:3]
      : !frontend.tensor<[5, 8, 3], f32> -> !frontend.tensor<[2, 4, 0], f32>
  frontend.output %1 : !frontend.tensor<[2, 4, 0], f32>
}
""",
        {},
    ),
}
"""What random programs found, made small."""

STRIDED = (7195, 7830, 8083)
"""Numbers of programs that take every third element, and of these every third."""


@pytest.mark.parametrize("name", FOUND)
def test_programs_that_failed_once(name: str, ctx: Context) -> None:
    text, sizes = FOUND[name]
    program = RandomProgram(parse_text(ctx, text, "f.mlir"), sizes)
    for way in range(len(layers.FUSIONS)):
        copy = RandomProgram(program.module.clone(), sizes)
        assert layers.failure(copy, way) is None, way


@pytest.mark.parametrize("number", STRIDED)
def test_sizes_that_are_divided_twice(number: int) -> None:
    assert layers.fault(f"0 {number}") is None


def test_every_kind_of_op_is_drawn() -> None:
    """S2.2, op by op: a generator that leaves one out would not test it."""
    found: set[str] = set()
    for number in range(300):
        program = drawn(random.Random(f"kinds {number}"))
        found |= {op.name.partition(".")[2] for op in program.module.walk()}
    assert found >= {
        *("gemm", "conv2d", "attention", "layer_norm", "rms_norm", "softmax", "log_softmax"),
        *("elementwise", "compare", "select", "cast", "constant", "reduce"),
        *("reshape", "permute", "expand", "pad", "slice", "concat"),
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_a_product_goes_down_to_tiles(seed: int) -> None:
    """On both architectures, which an even and an odd seed choose."""
    sizes = {"M": 5, "N": 6, "K": 7}
    reached = Counter[str]()
    program = RandomProgram(Maker(random.Random(seed), sizes).one_product(), sizes)
    assert layers.failure(program, seed, reached) is None
    assert reached["region-to-gpu"] == 1


def test_a_program_is_its_number() -> None:
    one, other = (drawn(random.Random("7")) for _ in range(2))
    assert str(one.module) == str(other.module) and one.sizes == other.sizes


def test_a_wrong_pass_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that became maxima change most programs that have one."""
    run_pass = layers.run_pass

    def wrong(ctx: Context, instance: object, module: ModuleOp) -> None:
        run_pass(ctx, instance, module)  # pyright: ignore[reportArgumentType]
        for op in module.walk():
            if isinstance(op, tiny.ReduceOp) and op.function == "sum":
                op.properties["fn"] = tiny.ReduceOp("max", op.operand, op.axes).fn

    monkeypatch.setattr(layers, "run_pass", wrong)
    assert any("changes the result" in (layers.fault(f"ci 0 {n}") or "") for n in range(8))
