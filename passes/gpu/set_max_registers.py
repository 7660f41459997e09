"""``gpu-set-max-registers``: move registers from the producer to the consumers (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import IntsAttr
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import rewrite


class SetMaxRegisters(RewritePattern):
    """Begin each role with ``setmaxnreg`` for its budget.

    Legality: the budgets together fit the registers that the CTA gets at launch, or the
    consumers would wait for ever; raises PolycError ``ResourceExceeded`` with the numbers.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.RolesOp, rewriter: PatternRewriter) -> None:
        producer, consumer = op.register_split
        if not producer or not consumer:
            return
        kernel = enclosing_kernel(op)
        module = kernel.parent_op()
        assert isinstance(module, gpu.ModuleOp)
        groups = kernel.threads.value.data // 128
        threads = kernel.threads.value.data * kernel.blocks_per_sm.value.data
        per_thread = ARCHS[module.arch.data].registers // threads // 8 * 8
        needed, given = producer + op.consumers.value.data * consumer, groups * per_thread
        if needed > given:
            raise PolycError(
                "ResourceExceeded",
                f"{producer} + {op.consumers.value.data} x {consumer} = {needed} registers do not "
                f"fit the {groups} x {per_thread} = {given} that {groups} warpgroups start with; "
                "lower a budget",
                op,
            )
        for region, count in ((op.producer, producer), (op.consumer, consumer)):
            direction = "increase" if count > per_thread else "decrease"
            rewriter.insert(
                hw.SetMaxRegistersOp(direction, count), InsertPoint.at_start(region.block)
            )
        op.registers = IntsAttr((0, 0))
        rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class GpuSetMaxRegisters(ModulePass):
    """Give each role its registers."""

    name = "gpu-set-max-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SetMaxRegisters()])
