"""``plan-select``: choose how each region runs on an architecture (S8, S9.3).

Every ``region.kernel`` gets one ``plan.schedule`` for each variant of its kernel that
the assumptions on the symbols leave open, at most three, in order of dispatch.  The
numbers are today's best-known ones for a large GEMM; tuning replaces them later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.arch import ARCHS, arch_names
from polyc.dialects.diagnostic import PolycError, from_text
from polyc.dialects.dim import Assumption, AssumptionsAttr, Dim, unknown_symbol
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan_fields import Record, Value
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    ConstantOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    TransposeOp,
    UnaryOp,
)
from polyc.dialects.region_types import MemRefType, ValType
from polyc.passes.driver import rewrite
from polyc.poly import isl
from polyc.poly.contraction import Refusal, classify

Fields = dict[str, Value]


# What the region computes -----------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """One side of a contraction: a tensor, the read of it, and the axes of its dimensions."""

    name: str
    read: ReadOp
    axes: tuple[str, ...]
    """The axis that walks each dimension of the tensor, outermost first."""

    @property
    def contiguous(self) -> Dim:
        """The size of the innermost dimension."""
        return cast("MemRefType", self.read.tensor.type).shape[-1]


@dataclass(frozen=True)
class Contraction:
    """``C[m, n] = epilogue(sum over k of A[m, k] * B[k, n])`` in a region.

    ``lhs`` carries m and ``rhs`` carries n, where n is the innermost axis of the output.
    """

    kernel: KernelOp
    reduce: ReduceOp
    lhs: Operand
    rhs: Operand
    m: str
    n: str
    k: str
    epilogue: tuple[str, ...]

    def size(self, axis: str) -> Dim:
        """The number of points of an axis."""
        found = cast("ValType", self.reduce.operand.type).axis(axis)
        assert found is not None
        return found.size


def _unsupported(kernel: KernelOp, why: str, way_out: str) -> PolycError:
    return PolycError(
        "UnsupportedProgram",
        f"region @{kernel.sym_name.data} has no schedule: {why}; {way_out}",
        kernel,
    )


_WAY_OUT = "plan-select takes one gemm with an elementwise epilogue a region"


def find_contraction(kernel: KernelOp) -> Contraction:
    """The contraction of a region.

    The region holds one sum of products whose two factors are reads of f16 or bf16
    tensors, moved and cast only.  Raises PolycError ``UnsupportedProgram`` with the
    reason and the way out.
    """
    reductions = [op for op in kernel.body.block.ops if isinstance(op, ReduceOp)]
    if len(reductions) != 1:
        raise _unsupported(kernel, f"it has {len(reductions)} reductions", _WAY_OUT)
    reduce = reductions[0]
    product = reduce.operand.owner
    if reduce.fn.data != "sum" or not isinstance(product, BinaryOp) or product.fn.data != "mul":
        raise _unsupported(kernel, "its reduction is not a sum of products", _WAY_OUT)
    if reduce.label is None:
        raise _unsupported(
            kernel,
            "its reduction has no name for the plan to speak of",
            'write name "acc" after region.reduce',
        )
    if len(kernel.yield_op.values) != 1 or len(reduce.labels) != 1:
        raise _unsupported(
            kernel,
            f"it has {len(kernel.yield_op.values)} outputs and reduces {len(reduce.labels)} axes",
            _WAY_OUT,
        )
    element = product.result.type.element_type
    if not isinstance(element, Float32Type):
        raise _unsupported(
            kernel,
            f"its products are {element}, and tensor cores do not round them",
            "cast the factors to f32",
        )
    left, right = (_factor(kernel, value) for value in (product.lhs, product.rhs))
    if left.element != right.element:
        raise _unsupported(
            kernel,
            f"{left.name} holds {left.element} and {right.name} {right.element}",
            "store both in one type",
        )
    out = reduce.result.type.labels
    names = (*out, *reduce.labels)
    pattern = classify(
        out,
        reduce.labels,
        _access(left.read, names),
        _access(right.read, names),
        _domain(reduce, names, kernel.symbol_names),
    )
    if isinstance(pattern, Refusal):
        raise _unsupported(kernel, pattern.reason, _WAY_OUT)
    if pattern.batch or not len(pattern.lhs_axes) == len(pattern.rhs_axes) == 1:
        raise _unsupported(
            kernel,
            f"it contracts {left.name} with {right.name} into [{', '.join(out)}], which is no "
            "product of two matrices",
            _WAY_OUT,
        )
    for side, found in ((left, pattern.lhs), (right, pattern.rhs)):
        if not found.plain:
            raise _unsupported(
                kernel,
                f"it reads {side.name} at {side.read.map.data}, not along its axes",
                _WAY_OUT,
            )
    walked = [tuple(names[a] for a in o.axes if a is not None) for o in (pattern.lhs, pattern.rhs)]
    sides = [Operand(s.name, s.read, axes) for s, axes in zip((left, right), walked, strict=True)]
    # The innermost axis of the output is n, whichever factor carries it.
    lhs, rhs = sides if pattern.lhs_axes == (0,) else sides[::-1]
    m, n = out
    return Contraction(kernel, reduce, lhs, rhs, m, n, reduce.labels[0], _epilogue(kernel, reduce))


@dataclass(frozen=True)
class _Factor:
    name: str
    read: ReadOp

    @property
    def element(self) -> Attribute:
        return self.read.result.type.element_type


def _access(read: ReadOp, names: Sequence[str]) -> AffineMap:
    """The read's map from the axes ``names``, by name."""
    access = read.map.data
    dims = [AffineDimExpr(names.index(label)) for label in read.result.type.labels]
    symbols = [AffineSymExpr(i) for i in range(access.num_symbols)]
    moved = tuple(e.replace_dims_and_symbols(dims, symbols) for e in access.results)
    return AffineMap(len(names), access.num_symbols, moved)


def _domain(reduce: ReduceOp, names: Sequence[str], symbols: Sequence[str]) -> AffineSet:
    """The points of the reduction: every axis from 0 to its size; sizes beyond isl are open."""
    rows: list[AffineConstraintExpr] = []
    zero = AffineConstantExpr(0)
    for i, name in enumerate(names):
        axis = cast("ValType", reduce.operand.type).axis(name)
        assert axis is not None
        point = AffineDimExpr(i)
        rows.append(AffineConstraintExpr(AffineConstraintKind.ge, point, zero))
        size = axis.size.as_affine(symbols)
        if size is not None:
            last = size + -point + -1
            rows.append(AffineConstraintExpr(AffineConstraintKind.ge, last, zero))
    return AffineSet(len(names), len(symbols), tuple(rows))


def _factor(kernel: KernelOp, value: SSAValue) -> _Factor:
    """Follow a factor to its read; axis names are the same all along (S6.2)."""
    owner = value.owner
    rounded: set[Attribute] = set()
    while isinstance(owner, CastOp | BroadcastInDimOp | TransposeOp):
        if isinstance(owner, CastOp):
            rounded.add(owner.result.type.element_type)
        value = owner.operand
        owner = value.owner
    if not isinstance(owner, ReadOp) or not isinstance(owner.tensor, BlockArgument):
        what = getattr(owner, "name", "a block argument")
        raise _unsupported(
            kernel,
            f"a factor of its sum is computed by {what}, and tensor cores read memory",
            "make that value an output of a graph of its own",
        )
    name = kernel.arg_names.data[owner.tensor.index].data
    if owner.guard is not None:
        raise _unsupported(kernel, f"it reads {name} under a guard", "pad the tensor outside")
    found = _Factor(name, owner)
    if not isinstance(found.element, Float16Type | BFloat16Type):
        raise _unsupported(
            kernel,
            f"{name} holds {found.element}, and tensor cores take f16 or bf16",
            "store it as f16 or bf16",
        )
    for element in rounded:
        if element != found.element and not isinstance(element, Float32Type):
            raise _unsupported(
                kernel,
                f"it rounds {name} from {found.element} to {element} on its way to the product",
                f"store it as {element}",
            )
    return found


def _epilogue(kernel: KernelOp, reduce: ReduceOp) -> tuple[str, ...]:
    """What happens to the accumulator on its way to the output, in order.

    An added vector is ``bias``, a maximum with 0 is ``relu``; other steps have their
    function's name.  Raises PolycError when a step needs more than the element's own
    value and reads.
    """
    dependent: set[SSAValue] = {reduce.result}
    steps: list[str] = []
    for op in kernel.body.block.ops:
        if not any(operand in dependent for operand in op.operands):
            continue
        dependent.update(op.results)
        match op:
            case BinaryOp():
                other = op.rhs if op.lhs in dependent else op.lhs
                steps.append(_step(op.fn.data, other))
            case UnaryOp():
                steps.append(op.fn.data)
            case BroadcastInDimOp() | TransposeOp():
                raise _unsupported(
                    kernel, f"its epilogue moves the accumulator by {op.name}", _WAY_OUT
                )
            case CastOp() if not all(u.operation is kernel.yield_op for u in op.result.uses):
                steps.append("cast")
            case _:
                pass
    return tuple(steps)


def _step(fn: str, other: SSAValue) -> str:
    owner = other.owner
    while isinstance(owner, CastOp | BroadcastInDimOp):
        owner = owner.operand.owner
    if isinstance(owner, ReadOp) and fn == "add":
        return "bias" if len(owner.result.type.axes) == 1 else "residual"
    if isinstance(owner, ConstantOp) and fn == "max" and owner.value.value.data == 0.0:
        return "relu"
    return fn


# Variants ---------------------------------------------------------------------------------


def holds_always(fact: Assumption, known: AssumptionsAttr, symbols: Sequence[str]) -> bool:
    """Whether ``known`` implies ``fact``; isl decides where both are affine."""
    if (value := fact.expr.constant()) is not None:
        return value == 0 if fact.kind == "==" else value >= 0
    if fact in known.data:
        return True
    if fact.expr.as_affine(symbols) is None:
        return False
    conclusion = AssumptionsAttr((fact,)).as_affine_set(symbols)
    return isl.implies(known.as_affine_set(symbols), conclusion)


def _never(fact: Assumption, known: AssumptionsAttr, symbols: Sequence[str]) -> bool:
    """Whether no sizes satisfy ``fact`` beside ``known``."""
    if (value := fact.expr.constant()) is not None:
        return not (value == 0 if fact.kind == "==" else value >= 0)
    if fact.expr.as_affine(symbols) is None:
        return False
    return isl.is_empty(AssumptionsAttr((*known.data, fact)).as_affine_set(symbols))


@dataclass(frozen=True)
class Variant:
    """A kernel that runs when all contiguous sizes are multiples of ``multiple``."""

    name: str
    multiple: int
    fields: Mapping[str, Value]
    needs_k: bool = False
    """A tensor map has no empty axis: K is at least 1 (S9.3)."""


_WGMMA: Fields = {
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 256, 64],
    "stages": 4,
    "warp_tile": [64, 256],
    "consumers": 2,
    "registers": [40, 232],
    "raster": "grouped",
    "group": 8,
}
_MMA_SYNC: Fields = {
    "mma": "mma.sync",
    "tile": [128, 128, 32],
    "warp_tile": [64, 64],
    "raster": "grouped",
    "group": 8,
}

VARIANTS: Mapping[str, tuple[Variant, ...]] = {
    "sm_90a": (
        Variant("tma", 8, {**_WGMMA, "vectorize": 8}, needs_k=True),
        Variant("cp_async", 2, {**_MMA_SYNC, "loader": "cp_async", "stages": 3, "vectorize": 2}),
        Variant("scalar", 1, {**_MMA_SYNC, "loader": "register", "stages": 2, "vectorize": 1}),
    ),
    "sm_80": (
        Variant("cp_async16", 8, {**_MMA_SYNC, "loader": "cp_async", "stages": 4, "vectorize": 8}),
        Variant("cp_async4", 2, {**_MMA_SYNC, "loader": "cp_async", "stages": 3, "vectorize": 2}),
        Variant("scalar", 1, {**_MMA_SYNC, "loader": "register", "stages": 2, "vectorize": 1}),
    ),
}
"""The variants of each architecture, fastest first; the last one takes every shape."""


def conditions(gemm: Contraction, variant: Variant) -> tuple[Assumption, ...] | None:
    """What a variant needs beyond the assumptions, or None when it can never run."""
    kernel = gemm.kernel
    facts: list[Assumption] = []
    if variant.multiple > 1:
        out = kernel.outs.data[0].shape[-1]
        for size in dict.fromkeys((gemm.lhs.contiguous, gemm.rhs.contiguous, out)):
            facts.append(Assumption(size.mod(variant.multiple), "=="))
    if variant.needs_k:
        facts.append(Assumption(gemm.size(gemm.k) - 1, ">="))
    known, symbols = kernel.assumptions, kernel.symbol_names
    if any(_never(fact, known, symbols) for fact in facts):
        return None
    return tuple(fact for fact in facts if not holds_always(fact, known, symbols))


def _pointers_promised(gemm: Contraction, variant: Variant) -> bool:
    """Whether the signature's alignments are enough for the variant's accesses."""
    wanted = variant.multiple * OPERAND_BYTES
    reads = (gemm.lhs.read.tensor.type, gemm.rhs.read.tensor.type)
    return all(
        cast("MemRefType", type).align >= wanted for type in (*reads, gemm.kernel.outs.data[0])
    )


def schedule_fields(gemm: Contraction, arch: str, variant: Variant) -> Fields:
    """Every field of a variant's schedule for this contraction."""
    chosen = dict(variant.fields)
    m, n, k = gemm.m, gemm.n, gemm.k
    grouped = chosen["mma"] == "wgmma"
    steps = gemm.epilogue
    target = steps[-1] if steps else gemm.kernel.res_names.data[0].data
    acc = cast("str", gemm.reduce.label)
    cache: list[Record] = [
        {"tensor": side.name, "where": "smem", "at": f"{k}.i", "pingpong": True}
        for side in (gemm.lhs, gemm.rhs)
    ]
    return {
        **chosen,
        "arch": arch,
        "tensorize": acc,
        "vectorize_axis": f"{n}.i.i",
        "bind": {
            f"{m}.o": "block.x",
            f"{n}.o": "block.x",
            f"{m}.i.o": "warpgroup" if grouped else "warp.y",
            **({} if grouped else {f"{n}.i.o": "warp.x"}),
        },
        "cache": cache,
        "predicate_tail": _tails(gemm, cast("list[int]", chosen["tile"])),
        "epilogue": list(steps),
        "layout_hints": {
            f"{gemm.lhs.name}_swizzle": True,
            f"{gemm.rhs.name}_swizzle": True,
            f"{gemm.lhs.name}_major": gemm.lhs.axes[-1],
            f"{gemm.rhs.name}_major": gemm.rhs.axes[-1],
            f"{gemm.kernel.res_names.data[0].data}_stride": "row",
        },
        "algo_choice": {"matmul": "tiled"},
        "local_edges": [{"from": acc, "to": target, "buffer": "reg"}],
    }


def _tails(gemm: Contraction, tile: Sequence[int]) -> list[str]:
    """The axes whose size need not be a multiple of their tile."""
    kernel = gemm.kernel
    return [
        axis
        for axis, step in zip((gemm.m, gemm.n, gemm.k), tile, strict=True)
        if not holds_always(
            Assumption(gemm.size(axis).mod(step), "=="), kernel.assumptions, kernel.symbol_names
        )
    ]


def fitted(region: str, variant: str, fields: Fields, when: Sequence[Assumption]) -> ScheduleOp:
    """A schedule that the compiler chose, with fewer stages where it is too large (S8.2).

    ``notes`` says what was given up.  Raises PolycError when two stages do not fit.
    """
    stages = wanted = cast("int", fields["stages"])
    while True:
        notes = [] if stages == wanted else [f"stages {wanted} -> {stages}: shared memory"]
        op = ScheduleOp(region, variant, {**fields, "stages": stages, "notes": notes}, when)
        if op.shared_bytes() <= op.target.shared_bytes or stages <= 2:
            _check(op)
            return op
        stages -= 1


def _check(op: ScheduleOp) -> None:
    """Verify a schedule before it is used; raises PolycError."""
    try:
        op.verify_()
    except VerifyException as error:
        refused = from_text(str(error), kind="BadPlan")
        name = f"plan {op.variant.data!r} of region @{op.region.string_value()}"
        raise PolycError(refused.kind, f"{name}: {refused.message}") from error


# The user's plan --------------------------------------------------------------------------


def read_plan(path: str) -> list[dict[str, object]]:
    """The schedules in a JSON file: an object, or a list of them as ``--dump=plan`` writes.

    Raises PolycError when the file is not there or holds something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            data: object = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolycError("BadPlan", f"the plan {path} cannot be read: {reason}") from error
    except json.JSONDecodeError as error:
        raise PolycError(
            "BadPlan", f"the plan {path} is not JSON: {error.msg} at line {error.lineno}"
        ) from error
    except ValueError as error:
        raise PolycError("BadPlan", f"the plan {path} cannot be read: {error}") from error
    schedules = cast("list[object]", data) if isinstance(data, list) else [data]
    for schedule in schedules:
        if not isinstance(schedule, dict):
            raise PolycError(
                "BadPlan",
                f"the plan {path} holds {type(schedule).__name__} where a schedule's object "
                "belongs; write one object, or a list of them",
            )
    return cast("list[dict[str, object]]", schedules)


def user_schedule(base: ScheduleOp, given: Mapping[str, object]) -> ScheduleOp:
    """``base`` with the fields that the user gave.

    Nothing is lowered to make it fit: a plan over a resource is refused with the numbers
    (S8.2).  Raises PolycError.
    """
    try:
        merged = ScheduleOp.from_json({**base.to_json(), **given})
    except ValueError as error:
        raise PolycError("BadPlan", str(error)) from error
    if merged.arch != base.arch:
        raise PolycError(
            "BadPlan",
            f"the plan is for {merged.arch.data}, the pass for {base.arch.data}; give one of both",
        )
    _check(merged)
    return merged


def _name_of(given: Mapping[str, object], key: str, default: str, known: Sequence[str]) -> str:
    """The region or variant that the user's schedule names; raises PolycError for others."""
    name = given.get(key, default)
    if name not in known:
        raise PolycError(
            "BadPlan",
            f"there is no {key} {name!r} to schedule; the {key}s are {', '.join(known)}",
        )
    return cast("str", name)


# The pass ---------------------------------------------------------------------------------


@dataclass(eq=False)
class SelectPlan(RewritePattern):
    """Give a region without a schedule one ``plan.schedule`` a variant.

    Legality: it adds schedules and changes no value.  A condition that the graph's
    assumptions imply is dropped; a variant that they exclude is not emitted, nor is one
    after a variant without conditions on sizes or addresses.
    """

    arch: str
    given: Sequence[Mapping[str, object]] = ()

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        name = op.sym_name.data
        block = op.parent_block()
        if block is None or any(
            isinstance(other, ScheduleOp) and other.region.string_value() == name
            for other in block.ops
        ):
            return
        gemm = find_contraction(op)
        schedules: list[ScheduleOp] = []
        for variant in VARIANTS[self.arch]:
            when = conditions(gemm, variant)
            if when is None:
                continue
            fields = schedule_fields(gemm, self.arch, variant)
            schedules.append(fitted(name, variant.name, fields, when))
            if not when and _pointers_promised(gemm, variant):
                break
        for given in self.given:
            if given.get("region", name) == name:
                self._apply(given, schedules, gemm)
        rewriter.insert(schedules, InsertPoint.after(op))

    def _apply(
        self, given: Mapping[str, object], schedules: list[ScheduleOp], gemm: Contraction
    ) -> None:
        """Put the user's fields over the variant that they name, or over the first."""
        names = [s.variant.data for s in schedules]
        i = names.index(_name_of(given, "variant", names[0], names))
        schedules[i] = chosen = user_schedule(schedules[i], given)
        for fact in chosen.when.data:
            if (fault := unknown_symbol(fact, gemm.kernel.symbol_names)) is not None:
                raise PolycError("BadPlan", f"plan {names[i]!r}: {fault}")
        known = AssumptionsAttr((*gemm.kernel.assumptions.data, *chosen.when.data))
        filled = Assumption(gemm.size(gemm.k) - 1, ">=")
        if chosen.loader.data == "tma" and not holds_always(
            filled, known, gemm.kernel.symbol_names
        ):
            raise PolycError(
                "BadPlan",
                f"plan {names[i]!r} loads by tma, and a tensor map has no empty axis; "
                f'add "{filled}" to its when',
            )


@dataclass(frozen=True)
class PlanSelectPass(ModulePass):
    """Choose the schedules of every region for ``arch``.

    ``plan`` names a JSON file with fields of the user's own (S8.1), laid over the variant
    that it names or over the first; a list of such objects is taken one by one.
    """

    name = "plan-select"

    arch: str = "sm_90a"
    plan: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.arch not in ARCHS:
            raise PolycError(
                "UnknownArch", f"there is no architecture {self.arch!r}; use {arch_names()}"
            )
        given = [] if self.plan is None else read_plan(self.plan)
        regions = [kernel.sym_name.data for kernel in op.ops if isinstance(kernel, KernelOp)]
        for schedule in given:
            if regions:
                _name_of(schedule, "region", regions[0], regions)
        rewrite(op, [SelectPlan(self.arch, given)])
