"""``plan-select``: choose how each region runs on an architecture (S8, S9.3).

Every ``region.kernel`` gets one ``plan.schedule`` for each variant of its kernel that
the assumptions on the symbols leave open, at most four, in order of dispatch.  The
numbers are today's best-known ones for a large GEMM; tuning replaces them later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.arch import ARCHS, arch_names
from polyc.dialects.diagnostic import PolycError, from_text
from polyc.dialects.dim import Assumption, AssumptionsAttr, shape_text, unknown_symbol
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan_fields import Record, Value
from polyc.dialects.region import GraphOp, KernelOp
from polyc.dialects.region_graph import ends, source
from polyc.dialects.region_types import MemRefType
from polyc.passes.driver import rewrite
from polyc.passes.region_contraction import Contraction, Operand, find_contraction
from polyc.poly import isl

__all__ = [
    "VARIANTS",
    "Contraction",
    "Operand",
    "PlanSelectPass",
    "SelectPlan",
    "Variant",
    "conditions",
    "find_contraction",
    "fitted",
    "holds_always",
    "read_plan",
    "schedule_fields",
    "user_schedule",
]

Fields = dict[str, Value]


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
    elements: int = 0
    """The least elements of the output: with fewer, its tiles would leave multiprocessors idle."""


_WGMMA: Fields = {
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 256, 64],
    "stages": 4,
    "warp_tile": [64, 256],
    "consumers": 2,
    "registers": [40, 232],
    "raster": "grouped",
    "group": 16,
    "persistent": True,
}
_MMA_SYNC: Fields = {
    "mma": "mma.sync",
    "tile": [128, 128, 32],
    "warp_tile": [64, 64],
    "raster": "grouped",
    "group": 8,
}
_MMA_SYNC_LARGE: Fields = {
    **_MMA_SYNC,
    "loader": "cp_async",
    "tile": [256, 128, 64],
    "stages": 3,
    "fragment_buffers": 2,
    "vectorize": 8,
}
"""Operands are loaded a step ahead, and k is 64 deep so that four steps share a barrier; 147456
bytes of shared memory fit a block of sm_80.  256x128 needs a tile for each of an A100's 108
multiprocessors."""

VARIANTS: Mapping[str, tuple[Variant, ...]] = {
    "sm_90a": (
        Variant("tma", 8, {**_WGMMA, "vectorize": 8}, needs_k=True),
        Variant("cp_async", 2, {**_MMA_SYNC, "loader": "cp_async", "stages": 3, "vectorize": 2}),
        Variant("scalar", 1, {**_MMA_SYNC, "loader": "register", "stages": 2, "vectorize": 1}),
    ),
    "sm_80": (
        Variant("cp_async16_large", 8, _MMA_SYNC_LARGE, elements=108 * 256 * 128),
        Variant("cp_async16", 8, {**_MMA_SYNC_LARGE, "tile": [128, 128, 64]}),
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
    if variant.elements:
        outputs = gemm.size(gemm.m) * gemm.size(gemm.n)
        facts.append(Assumption(outputs - variant.elements, ">="))
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


def _check_edges(graph: GraphOp) -> None:
    """Refuse a tensor that a kernel of ``graph`` sees in another shape than it was made in."""
    made = {
        (graph.sym_name.data, n.data): t for n, t in zip(graph.arg_names, graph.ins, strict=True)
    }
    wanted: list[tuple[str, tuple[str, str] | None, Attribute, Operation]] = []
    for kernel in graph.kernels():
        name = kernel.sym_name.data
        made |= {(name, n.data): t for n, t in zip(kernel.res_names, kernel.outs, strict=True)}
        for i, (label, arg) in enumerate(zip(kernel.arg_names, kernel.ins, strict=True)):
            wanted.append((f"{label.data} of @{name}", source(kernel, i), arg.type, kernel))
    for label, edge, kind in zip(graph.res_names, graph.sources, graph.outs, strict=True):
        wanted.append((f"output {label.data}", ends(edge), kind, graph))
    for what, where, kind, at in wanted:
        there = None if where is None else made.get(where)
        if isinstance(kind, MemRefType) and there is not None and there.shape != kind.shape:
            raise PolycError(
                "UnsupportedProgram",
                f"{what} is {shape_text(kind.shape)}, a view of what is {shape_text(there.shape)} "
                "in memory, and kernels take tensors as they lie; give it as an input or output "
                "of a graph of its own",
                at,
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
        for graph in op.ops:
            if isinstance(graph, GraphOp):
                _check_edges(graph)
        given = [] if self.plan is None else read_plan(self.plan)
        regions = [kernel.sym_name.data for kernel in op.ops if isinstance(kernel, KernelOp)]
        for schedule in given:
            if regions:
                _name_of(schedule, "region", regions[0], regions)
        rewrite(op, [SelectPlan(self.arch, given)])
