"""Sums beside their terms, and products whose rows another kernel reduces."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.region import KernelOp
from polyc.dialects.region.axes import ReduceOp
from polyc.test.support.attention_programs import TO_REGION, Attention, passed
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch

UP_TO_REGIONS = TO_REGION[: TO_REGION.index("index-to-region") + 1]


def kernels(module: ModuleOp | str) -> list[KernelOp]:
    text = module if isinstance(module, str) else str(module)
    return find(passed(text, *UP_TO_REGIONS), KernelOp)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_a_softmax_whose_weights_a_product_reads_is_one_kernel_with_its_sums(element: str) -> None:
    """Heads of 512 features are no one kernel: scores, weights and sums of rows, and the product.

    What divides by a sum, or asks whether it is 0, is done where the product ends.
    """
    shape = ("[H, M, 512]", "[H, N, 512]", "[H, N, 512]")
    first, weights, second = kernels(Attention(*shape, [], element=element).text())
    assert [len(kernel.yield_op.values) for kernel in (first, weights, second)] == [1, 2, 1]
    assert sorted(op.fn.data for op in find(weights, ReduceOp)) == ["max", "sum"]
    assert len(find(second, ReduceOp)) == 1


def gate(columns: int, depth: int, rows: int | str = "T") -> ModuleOp:
    """A softmax of a product."""
    s = Sketch("gate")
    product = s.gemm(s.input("x", rows, depth), s.input("w", columns, depth), turned=True)
    return s.done(y=s.softmax(product))


@pytest.mark.parametrize(
    ("columns", "depth", "rows", "count"),
    [
        (64, 4096, "T", 2),
        (64, 4096, 16, 2),
        (128, 2048, "T", 2),
        (64, 4096, 65536, 1),  # many rows: what is stored costs more than a launch
        (64, 512, "T", 1),
        (128, 1536, "T", 1),
        (256, 8192, "T", 1),
    ],
)
def test_rows_of_a_deep_product_are_reduced_by_another_kernel(
    columns: int, depth: int, rows: int | str, count: int
) -> None:
    assert len(kernels(gate(columns, depth, rows))) == count
