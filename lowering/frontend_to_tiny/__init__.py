"""``frontend-to-tiny``: high-level ops as compositions of the smallest vocabulary (S3.2).

Each pattern turns one op into tiny ops and is exact: it changes no value.  In between, a
frontend value stands behind an ``unrealized_conversion_cast`` from the tiny value that
holds it (f32, an integer or a condition, S0.6), so every pattern works alone and in any mixture;
the pass drops the casts at the end.  Parameters are inputs before all else.  ``NoteStorable``
before and ``RoundOnce`` after them see to the types in which values are stored; ``KeepRowsApart``
leaves rows of products the axes that they have around them, ``KeepBatchApart`` their batches, and
``SinkPermute`` what follows a product beside it; ``SliceAtKnownPlaces`` reads a part where a
gather's places are counted;
``ScaleAfterProduct`` takes numbers out of products first, ``ShiftScan`` joins numbers and a scan
before it is computed, and ``RoundWeights`` rounds a softmax's
weights as the values that they multiply.
The patterns stand in files by family and are all offered here.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import frontend, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import computed
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.frontend_to_tiny.attention import LowerAttention
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, lowered_all, stored
from polyc.lowering.frontend_to_tiny.convolutions import LowerConv
from polyc.lowering.frontend_to_tiny.elementwise import (
    COMPOSED,
    LowerCast,
    LowerClassify,
    LowerCompare,
    LowerConstant,
    LowerDim,
    LowerElementwise,
    LowerIota,
    LowerSelect,
)
from polyc.lowering.frontend_to_tiny.gathers import LowerGather
from polyc.lowering.frontend_to_tiny.joined import SplitJoinedSoftmax
from polyc.lowering.frontend_to_tiny.known_places import SliceAtKnownPlaces
from polyc.lowering.frontend_to_tiny.merged_batch import KeepBatchApart
from polyc.lowering.frontend_to_tiny.merged_rows import KeepRowsApart
from polyc.lowering.frontend_to_tiny.movements import LowerConcat, LowerMovement
from polyc.lowering.frontend_to_tiny.own import NoteStorable, RoundOnce
from polyc.lowering.frontend_to_tiny.pooling import (
    LowerAdaptivePool,
    LowerArgPool,
    LowerPool,
)
from polyc.lowering.frontend_to_tiny.products import LowerGemm
from polyc.lowering.frontend_to_tiny.random import LowerDropout, LowerRandom
from polyc.lowering.frontend_to_tiny.reductions import LowerNorm, LowerReduce, LowerSoftmax
from polyc.lowering.frontend_to_tiny.resizing import LowerResize
from polyc.lowering.frontend_to_tiny.sampling import LowerGridSample
from polyc.lowering.frontend_to_tiny.scales import ScaleAfterProduct
from polyc.lowering.frontend_to_tiny.scans import LowerScan
from polyc.lowering.frontend_to_tiny.scatters import LowerScatter
from polyc.lowering.frontend_to_tiny.selection import LowerArgReduce, LowerSort
from polyc.lowering.frontend_to_tiny.shifted_scans import ShiftScan
from polyc.lowering.frontend_to_tiny.sunk_permutes import SinkPermute
from polyc.lowering.frontend_to_tiny.transposed import LowerConvTranspose
from polyc.lowering.frontend_to_tiny.unpooled import ChooseAtPlaces
from polyc.lowering.frontend_to_tiny.weights import RoundWeights
from polyc.rewriting.changes import CLASSES, check_classes
from polyc.rewriting.driver import rewrite
from polyc.rewriting.equal_ops import merge_equal
from polyc.rewriting.frontend.parameters import lift_parameters
from polyc.rewriting.notes import Report, show

__all__ = [
    "COMPOSED",
    "Builder",
    "ChooseAtPlaces",
    "DropUnusedConversion",
    "FrontendToTiny",
    "KeepBatchApart",
    "KeepRowsApart",
    "LowerAdaptivePool",
    "LowerArgPool",
    "LowerArgReduce",
    "LowerAttention",
    "LowerCast",
    "LowerClassify",
    "LowerCompare",
    "LowerConcat",
    "LowerConstant",
    "LowerConv",
    "LowerConvTranspose",
    "LowerDim",
    "LowerDropout",
    "LowerElementwise",
    "LowerGather",
    "LowerGemm",
    "LowerGraph",
    "LowerGridSample",
    "LowerIota",
    "LowerMovement",
    "LowerNorm",
    "LowerOutput",
    "LowerPool",
    "LowerRandom",
    "LowerReduce",
    "LowerResize",
    "LowerScan",
    "LowerScatter",
    "LowerSelect",
    "LowerSoftmax",
    "LowerSort",
    "NoteStorable",
    "RoundOnce",
    "RoundWeights",
    "ScaleAfterProduct",
    "ShiftScan",
    "SinkPermute",
    "SliceAtKnownPlaces",
    "SplitJoinedSoftmax",
    "lowered",
    "patterns",
]


def check_ops(module: ModuleOp) -> None:
    """Raises PolycError for an op of a ``frontend.graph`` that is of another dialect.

    Patterns of one's own may leave ops of ``tiny``, behind the casts that this module's have.
    """
    taken = {*frontend.Frontend.operations, *tiny.Tiny.operations, UnrealizedConversionCastOp}
    for graph in module.walk():
        if not isinstance(graph, frontend.GraphOp):
            continue
        for op in graph.body.block.ops:
            types = [*op.operand_types, *op.result_types]
            idle = isinstance(op, UnrealizedConversionCastOp) and not any(
                isinstance(t, tiny.TensorType) for t in types
            )
            if type(op) not in taken or idle:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{op.name} has no form in tiny; run a pass before that replaces it",
                    op,
                )


class LowerGraph(RewritePattern):
    """``frontend.graph`` → ``tiny.graph`` with the same signature, types as stored.

    Legal always.  Each argument of real numbers in use is widened to f32 once, at the start: values
    are computed in f32 from the first load (S0.6).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GraphOp, rewriter: PatternRewriter, /) -> None:
        block = op.body.block
        build = Builder(rewriter, InsertPoint.at_start(block))
        for arg in tuple(block.args):
            kept = stored(arg.type)
            nominal = arg.type
            arg = rewriter.replace_value_with_new_type(arg, kept)
            uses = tuple(arg.uses)
            if not uses:
                continue
            value = build.cast(arg, computed(kept.element_type))
            if value is not arg and arg.name_hint:
                value.name_hint = f"{arg.name_hint}_f32"
            conversion = UnrealizedConversionCastOp.get([value], [nominal])
            build.add(conversion)
            for use in uses:
                use.operation.operands[use.index] = conversion.results[0]
        graph = tiny.GraphOp(
            op.sym_name.data,
            [stored(t) for t in op.function_type.inputs],
            [stored(t) for t in op.function_type.outputs],
            rewriter.move_region_contents_to_new_regions(op.body),
            arg_names=[n.data for n in op.arg_names],
            res_names=[n.data for n in op.res_names],
            arg_attrs=[a.data for a in op.arg_attrs],
            res_attrs=[a.data for a in op.res_attrs],
            assumptions=op.facts,
        )
        graph.attributes |= op.attributes
        rewriter.replace(op, graph)


class LowerOutput(RewritePattern):
    """``frontend.output`` → ``tiny.output`` of the values rounded to the outputs' types.

    Legal when the values are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.OutputOp, rewriter: PatternRewriter, /) -> None:
        values = lowered_all(op.args)
        if values is None:
            return
        build = Builder.before(op, rewriter)
        results = [
            _given(build, v, frontend.tensor_of(a).element_type)
            for v, a in zip(values, op.args, strict=True)
        ]
        rewriter.replace(op, tiny.OutputOp(results))


def _given(build: Builder, value: SSAValue, element: Attribute) -> SSAValue:
    """``value`` as an output of a type; what is computed and then moved is rounded before that."""
    if isinstance(value.owner, MovementOp) and tiny.tensor_of(value).element_type not in (
        element,
        i1,
    ):
        return build.narrowed(value, element)
    return build.cast(value, element)


class DropUnusedConversion(RewritePattern):
    """Erase an ``unrealized_conversion_cast`` of a tiny value that nothing uses any more."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: UnrealizedConversionCastOp, rewriter: PatternRewriter, /
    ) -> None:
        if lowered(op.results[0]) is not None and not any(r.first_use for r in op.results):
            rewriter.erase(op)


class DropUnusedView(RewritePattern):
    """Erase a movement or cast that nothing uses: what it moved was rounded first, and then moved.

    Legal always: ops are pure.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: tiny.PermuteOp | tiny.ReshapeOp | tiny.SliceOp | tiny.ExpandOp | tiny.CastOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        if op.result.first_use is None:
            rewriter.erase(op)


def patterns() -> list[RewritePattern]:
    """The patterns of the pass, fresh ones."""
    return [
        LowerGraph(),
        LowerGemm(),
        LowerConv(),
        LowerConvTranspose(),
        LowerAttention(),
        LowerPool(),
        LowerAdaptivePool(),
        LowerArgPool(),
        LowerReduce(),
        LowerArgReduce(),
        LowerSort(),
        LowerScan(),
        LowerResize(),
        LowerGridSample(),
        LowerGather(),
        LowerScatter(),
        LowerSoftmax(),
        LowerNorm(),
        LowerElementwise(),
        LowerCompare(),
        LowerClassify(),
        LowerSelect(),
        LowerCast(),
        LowerConstant(),
        LowerDim(),
        LowerIota(),
        LowerRandom(),
        LowerDropout(),
        LowerMovement(),
        LowerConcat(),
        LowerOutput(),
    ]


@dataclass(frozen=True)
class FrontendToTiny(ModulePass):
    """Every ``frontend.graph`` as a ``tiny.graph`` that computes the same values (S3).

    Signature, names, promises and assumptions stay.  A value that may be stored between two kernels
    says in which type (``own``); one that is rounded to it for some of its readers is so for all.

    ``classes`` are the changes that may happen: ``rounding`` is that of a softmax's weights where
    they are f32 and the values that they multiply are f16 or bf16, and each use is reported.
    """

    name = "frontend-to-tiny"

    classes: tuple[str, ...] = CLASSES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_classes(self.name, self.classes)
        check_ops(op)
        lift_parameters(op)
        rewrite(
            op,
            [
                SliceAtKnownPlaces(),
                ChooseAtPlaces(),
                KeepBatchApart(),
                KeepRowsApart(),
                SinkPermute(),
            ],
            recursive=True,
        )
        rewrite(op, [NoteStorable()])
        rewrite(op, [ScaleAfterProduct(), SplitJoinedSoftmax(), ShiftScan()], recursive=True)
        if "rounding" in self.classes:
            report = Report()
            rewrite(op, [RoundWeights(report)], recursive=True)
            show(report.fired)
        phases = any(isinstance(one, frontend.ConvTransposeOp) for one in op.walk())
        rewrite(op, patterns())
        rewrite(op, [DropUnusedConversion()])
        rewrite(op, [DropUnusedView()], recursive=True)
        if phases:
            # Phases that read an image alike read the same one, which is then stored once.
            for graph in op.walk():
                if isinstance(graph, tiny.GraphOp):
                    merge_equal(graph.body)
        rewrite(op, [RoundOnce()])
