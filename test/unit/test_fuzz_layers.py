"""A short run of the random programs that ``make fuzz`` sends through the layers for long."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import drawn

PARTS, EACH = 20, 25


@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    reached = Counter[str]()
    for number in range(EACH):
        name = f"ci {part} {number}"
        assert layers.fault(name, reached) is None, name
    # Nearly all programs have a form at every layer.
    assert reached[layers.PASSES[-1]] >= 0.9 * EACH


FOUND = (
    "1 132",  # a pad of a scalar
    "1 567",  # a slice of a size that multiplies symbols
    "1 963",  # a value that repeats along an axis of no elements
)
"""Numbers of programs that were wrong once."""


@pytest.mark.parametrize("number", FOUND)
def test_programs_that_failed_once(number: str) -> None:
    assert layers.fault(number) is None


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
