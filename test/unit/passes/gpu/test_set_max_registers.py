"""``gpu-set-max-registers``: budgets that a CTA has, and those that would hang it."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, run, unchanged

PASS = "gpu-set-max-registers"


def roles(producer: int, consumer: int, consumers: int = 2) -> str:
    return kernel(
        f"""
    gpu.roles consumers {consumers} registers [{producer}, {consumer}] producer {{
      gpu.yield
    }} consumer {{
      gpu.yield
    }}""",
        threads=128 * (consumers + 1),
    )


@pytest.mark.parametrize(
    ("split", "consumers", "ops"),
    [
        ((40, 232), 2, [("decrease", 40), ("increase", 232)]),
        ((24, 240), 2, [("decrease", 24), ("increase", 240)]),
        ((168, 168), 2, [("decrease", 168), ("decrease", 168)]),
        ((24, 160), 3, [("decrease", 24), ("increase", 160)]),
        ((24, 248), 1, [("decrease", 24), ("decrease", 248)]),
    ],
)
def test_set_max_registers(
    split: tuple[int, int], consumers: int, ops: list[tuple[str, int]]
) -> None:
    """A CTA of T threads starts with 65536 / T registers each, in steps of 8."""
    module = run(roles(*split, consumers), PASS)
    found = find(module, hw.SetMaxRegistersOp)
    assert [(op.direction.data, op.count.value.data) for op in found] == ops
    parents = [op.parent_region() for op in found]
    op = only(module, tile.RolesOp)
    assert parents == [op.producer, op.consumer] and op.register_split == (0, 0)


@pytest.mark.parametrize("split", [(0, 0), (40, 0), (0, 232)])
def test_set_max_registers_without_both_budgets_does_nothing(split: tuple[int, int]) -> None:
    unchanged(roles(*split), PASS)


@pytest.mark.parametrize(
    ("split", "consumers", "message"),
    [
        (
            (56, 232),
            2,
            "56 + 2 x 232 = 520 registers do not fit the 3 x 168 = 504 that 3 warpgroups start "
            "with; lower a budget",
        ),
        (
            (32, 168),
            3,
            "32 + 3 x 168 = 536 registers do not fit the 4 x 128 = 512 that 4 warpgroups start "
            "with; lower a budget",
        ),
    ],
)
def test_set_max_registers_refuses_more_than_there_are(
    split: tuple[int, int], consumers: int, message: str
) -> None:
    """40 + 2 x 232 is exactly what 384 threads have; 16 more would wait for ever."""
    assert_refused(roles(*split, consumers), "ResourceExceeded", message, "gpu.roles", PASS)
