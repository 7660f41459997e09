"""The ``frontend`` dialect: what a model computes, with its signature (S2.1-S2.3).

A ``frontend.graph`` states inputs, outputs, symbols and assumptions; its body is a pure
value graph of high-level ops.  Broadcasting is right-aligned.  The ops stand in files by
family: ``products`` (gemm), ``convolutions``, ``attention``, ``reductions`` (reduce, softmax,
norms), ``selection`` (places of extremes, sorts), ``scans``, ``pooling``, ``resizing``,
``gathers``, ``scatters``, ``elementwise``, ``leaves`` (constants, sizes, positions),
``movements``, ``random`` and ``parameters``; all are offered here.

An intermediate's float type is nominal (S0.6): values are computed in FP32 from the
first load and rounded at the outputs, at ``frontend.cast`` and at the operands of
``frontend.gemm``, of convolutions and of ``frontend.attention``, and where they go through
memory between two kernels (``storable.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def
from xdsl.traits import HasParent, IsTerminator

from polyc.dialects.common.signature import SignatureOp, SizedTensorType, verify_outputs
from polyc.dialects.frontend.adaptive import ADAPTIVE, AdaptivePoolOp
from polyc.dialects.frontend.attention import AttentionOp
from polyc.dialects.frontend.convolutions import (
    LAYOUTS,
    LAYOUTS_OF,
    Conv1dOp,
    Conv2dOp,
    Conv3dOp,
    ConvBase,
    ConvOp,
    ConvTranspose1dOp,
    ConvTranspose2dOp,
    ConvTranspose3dOp,
    ConvTransposeOp,
)
from polyc.dialects.frontend.elementwise import (
    BINARY,
    BINARY_FUNCTIONS,
    CLASSES,
    COMPARISONS,
    UNARY,
    UNARY_FUNCTIONS,
    CastOp,
    ClassifyOp,
    CompareOp,
    ElementwiseOp,
    SelectOp,
)
from polyc.dialects.frontend.gathers import GatherBase, GatherElementsOp, GatherNdOp, GatherOp
from polyc.dialects.frontend.leaves import ConstantOp, DimOp, IotaOp
from polyc.dialects.frontend.movements import (
    ConcatOp,
    ExpandOp,
    PadOp,
    PermuteOp,
    ReshapeOp,
    SliceOp,
)
from polyc.dialects.frontend.parameters import ParameterOp, parameters, verify_entries
from polyc.dialects.frontend.pooling import POOLINGS, ArgPoolOp, PoolOp
from polyc.dialects.frontend.products import GemmOp
from polyc.dialects.frontend.random import DISTRIBUTIONS, DropoutOp, RandomOp
from polyc.dialects.frontend.reductions import (
    REDUCTIONS,
    REDUCTIONS_OF_CONDITIONS,
    LayerNormOp,
    LogSoftmaxOp,
    ReduceOp,
    RmsNormOp,
    SoftmaxOp,
)
from polyc.dialects.frontend.resizing import COORDINATES, ROUNDINGS, ResizeOp
from polyc.dialects.frontend.sampling import GridSampleOp
from polyc.dialects.frontend.scans import ScanOp
from polyc.dialects.frontend.scatters import (
    ScatterBase,
    ScatterElementsOp,
    ScatterNdOp,
    ScatterOp,
)
from polyc.dialects.frontend.selection import EXTREMES, ArgReduceOp, SortOp
from polyc.dialects.frontend.types import TensorType, broadcast, tensor, tensor_of

__all__ = [
    "ADAPTIVE",
    "BINARY",
    "BINARY_FUNCTIONS",
    "CLASSES",
    "COMPARISONS",
    "COORDINATES",
    "DISTRIBUTIONS",
    "EXTREMES",
    "LAYOUTS",
    "LAYOUTS_OF",
    "POOLINGS",
    "REDUCTIONS",
    "REDUCTIONS_OF_CONDITIONS",
    "ROUNDINGS",
    "UNARY",
    "UNARY_FUNCTIONS",
    "AdaptivePoolOp",
    "ArgPoolOp",
    "ArgReduceOp",
    "AttentionOp",
    "CastOp",
    "ClassifyOp",
    "CompareOp",
    "ConcatOp",
    "ConstantOp",
    "Conv1dOp",
    "Conv2dOp",
    "Conv3dOp",
    "ConvBase",
    "ConvOp",
    "ConvTranspose1dOp",
    "ConvTranspose2dOp",
    "ConvTranspose3dOp",
    "ConvTransposeOp",
    "DimOp",
    "DropoutOp",
    "ElementwiseOp",
    "ExpandOp",
    "Frontend",
    "GatherBase",
    "GatherElementsOp",
    "GatherNdOp",
    "GatherOp",
    "GemmOp",
    "GraphOp",
    "GridSampleOp",
    "IotaOp",
    "LayerNormOp",
    "LogSoftmaxOp",
    "OutputOp",
    "PadOp",
    "ParameterOp",
    "PermuteOp",
    "PoolOp",
    "RandomOp",
    "ReduceOp",
    "ReshapeOp",
    "ResizeOp",
    "RmsNormOp",
    "ScanOp",
    "ScatterBase",
    "ScatterElementsOp",
    "ScatterNdOp",
    "ScatterOp",
    "SelectOp",
    "SliceOp",
    "SoftmaxOp",
    "SortOp",
    "TensorType",
    "broadcast",
    "parameters",
    "tensor",
    "tensor_of",
]


@irdl_op_definition
class GraphOp(SignatureOp):
    """A model's graph with its signature; inputs and outputs are not ops (S2.1)."""

    name = "frontend.graph"
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def verify_(self) -> None:
        super().verify_()
        verify_entries(self)


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
        Conv1dOp,
        Conv2dOp,
        Conv3dOp,
        ConvTranspose1dOp,
        ConvTranspose2dOp,
        ConvTranspose3dOp,
        AttentionOp,
        PoolOp,
        AdaptivePoolOp,
        ArgPoolOp,
        ResizeOp,
        GridSampleOp,
        GatherOp,
        GatherElementsOp,
        GatherNdOp,
        ScatterOp,
        ScatterElementsOp,
        ScatterNdOp,
        ReduceOp,
        ArgReduceOp,
        SortOp,
        ScanOp,
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
        DimOp,
        IotaOp,
        RandomOp,
        DropoutOp,
        ParameterOp,
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
