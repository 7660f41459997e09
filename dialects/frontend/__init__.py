"""The ``frontend`` dialect: what a model computes, with its signature (S2.1-S2.3).

A ``frontend.graph`` states inputs, outputs, symbols and assumptions; its body is a pure
value graph of high-level ops.  Broadcasting is right-aligned.  The ops stand in files by
family: ``frontend_products`` (gemm, conv2d), ``frontend_attention``,
``frontend_reductions`` (reduce, softmax, norms), ``frontend_elementwise`` and
``frontend_movements``; all are offered here.

An intermediate's element type is nominal (S0.6): values are computed in FP32 from the
first load and rounded at the outputs, at ``frontend.cast`` and at the operands of
``frontend.gemm``, ``frontend.conv2d`` and ``frontend.attention``, and where they go through
memory between two kernels (``storable.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def
from xdsl.traits import HasParent, IsTerminator

from polyc.dialects.common.signature import SignatureOp, SizedTensorType, verify_outputs
from polyc.dialects.frontend.attention import AttentionOp
from polyc.dialects.frontend.elementwise import (
    BINARY_FUNCTIONS,
    CLASSES,
    COMPARISONS,
    UNARY_FUNCTIONS,
    CastOp,
    ClassifyOp,
    CompareOp,
    ConstantOp,
    ElementwiseOp,
    SelectOp,
)
from polyc.dialects.frontend.movements import (
    ConcatOp,
    ExpandOp,
    PadOp,
    PermuteOp,
    ReshapeOp,
    SliceOp,
)
from polyc.dialects.frontend.products import LAYOUTS, Conv2dOp, GemmOp
from polyc.dialects.frontend.reductions import (
    REDUCTIONS,
    REDUCTIONS_OF_CONDITIONS,
    LayerNormOp,
    LogSoftmaxOp,
    ReduceOp,
    RmsNormOp,
    SoftmaxOp,
)
from polyc.dialects.frontend.types import TensorType, broadcast, tensor, tensor_of

__all__ = [
    "BINARY_FUNCTIONS",
    "CLASSES",
    "COMPARISONS",
    "LAYOUTS",
    "REDUCTIONS",
    "REDUCTIONS_OF_CONDITIONS",
    "UNARY_FUNCTIONS",
    "AttentionOp",
    "CastOp",
    "ClassifyOp",
    "CompareOp",
    "ConcatOp",
    "ConstantOp",
    "Conv2dOp",
    "ElementwiseOp",
    "ExpandOp",
    "Frontend",
    "GemmOp",
    "GraphOp",
    "LayerNormOp",
    "LogSoftmaxOp",
    "OutputOp",
    "PadOp",
    "PermuteOp",
    "ReduceOp",
    "ReshapeOp",
    "RmsNormOp",
    "SelectOp",
    "SliceOp",
    "SoftmaxOp",
    "TensorType",
    "broadcast",
    "tensor",
    "tensor_of",
]


@irdl_op_definition
class GraphOp(SignatureOp):
    """A model's graph with its signature; inputs and outputs are not ops (S2.1)."""

    name = "frontend.graph"
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The values of the graph's outputs, rounded to the outputs' element types (S0.6)."""

    name = "frontend.output"
    args = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), HasParent(GraphOp))
    assembly_format = "$args attr-dict `:` type($args)"

    def __init__(self, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)])

    def verify_(self) -> None:
        verify_outputs(self, self.args)


Frontend = Dialect(
    "frontend",
    [
        GraphOp,
        GemmOp,
        Conv2dOp,
        AttentionOp,
        ReduceOp,
        SoftmaxOp,
        LogSoftmaxOp,
        LayerNormOp,
        RmsNormOp,
        ElementwiseOp,
        CompareOp,
        ClassifyOp,
        SelectOp,
        CastOp,
        ConstantOp,
        ReshapeOp,
        PermuteOp,
        ExpandOp,
        PadOp,
        SliceOp,
        ConcatOp,
        OutputOp,
    ],
    [TensorType],
)
"""The dialect, as ``polyc-opt`` registers it."""
