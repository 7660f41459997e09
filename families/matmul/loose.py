"""Plans for an operand whose rows no tensor map begins at: threads load it, or TMA takes its
rows as one (S8).

The model of time compares them with copies to rows that are padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import prod

from polyc.cost.products import Stored
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.flat import rows as flat_rows
from polyc.families import ranking
from polyc.families.facts import DEPTH
from polyc.families.family import bad_plan
from polyc.families.matmul import flat, gathered, tensor_float
from polyc.families.matmul.conditions import is_plain, may_run
from polyc.families.matmul.problems import compared_form, is_crowded, problem_of, reads_of
from polyc.families.matmul.recognise import Contraction
from polyc.families.matmul.variants import MatmulVariant
from polyc.families.space import PIXEL_REGISTERS

LEAST_TILE, LOOSE_TILES = 64, 96
"""Rows and columns of a tile of which an output has so many at least where rows that no tensor map
begins at are not copied: of fewer none was timed."""


def _is_flat(gemm: Contraction, arch: str) -> bool:
    """Whether rows of an operand are taken as one."""
    return ARCHS[arch].wgmma and any(flat.flat_of(gemm, depth) for depth in (DEPTH, DEPTH // 2))


def _flat_form(gemm: Contraction, depths: Sequence[int]) -> ranking.Form:
    """What there is of a product beside its sizes, whose rows are lines that are taken as one."""
    return ranking.Form(
        is_crowded(gemm, "sm_90a"),
        stored=Stored(along=False, held=True),
        depths=tuple(depths),
        alone=True,
        reads=any(op not in gemm.reads for op in reads_of(gemm)),
        sums=False,
        held=flat_rows(gemm.size(gemm.m).constant() or 0),
    )


def flat_variants(gemm: Contraction, arch: str, count: int) -> list[MatmulVariant]:
    """So many plans of the space that take rows of an operand as one; none where they are not, or
    where sizes are open.
    """
    if not _is_flat(gemm, arch):
        return []
    seen = flat.oriented(gemm)
    depths = [depth for depth in (DEPTH, DEPTH // 2) if flat.flat_of(gemm, depth)]
    problem, form = problem_of(seen), _flat_form(seen, depths)
    k = gemm.size(gemm.k).constant() or 0
    # Each part has two steps at least, as its threads hold two.
    known = ranking.fastest(problem, arch, form, len(form.space(arch, every=True)))
    fit = (p for p in known if p.parts == 1 or p.parts * p.depth * 2 <= k)
    return [
        MatmulVariant(plan.flat_name, 1, {**plan.fields(), "loader": "flat"}, where=())
        for plan in islice(fit, count)
    ]


def _gather_form(gemm: Contraction, arch: str, late: bool) -> ranking.Form:
    """What there is of a product beside its sizes, of whose columns' operand threads load rows."""
    found = gathered.gathered_of(gemm, late)
    assert found is not None
    registers = PIXEL_REGISTERS[late]
    form = compared_form(gemm, arch, True)
    return replace(form, stored=found.stored, alone=True, sums=False, gathers=registers)


def gather_variants(
    gemm: Contraction, arch: str, count: int, late: bool = False
) -> list[MatmulVariant]:
    """So many plans of the space whose producers load the operand of the columns, ``late`` by
    cp.async; none where they do not, or where sizes are open.
    """
    if not ARCHS[arch].wgmma or gathered.gathered_of(gemm, late) is None:
        return []
    loader = "gather_async" if late else "gather"
    plans = ranking.fastest(problem_of(gemm), arch, _gather_form(gemm, arch, late), count)
    return [
        MatmulVariant(p.named(loader), 1, {**p.gathering(), "loader": loader}, where=())
        for p in plans
    ]


def loose_variants(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The plan for an operand of the columns whose rows no tensor map begins at, of known sizes:
    threads load it, by registers or cp.async, or TMA takes its rows as one, as the model says; none
    where copies are faster than these, or an output has few tiles, of which none was timed.
    """
    seen = flat.oriented(gemm)
    batch, m, n, k = (size or 0 for size in ranking.known_sizes(problem_of(gemm)))
    if batch * -(-m // LEAST_TILE) * -(-n // LEAST_TILE) < LOOSE_TILES:
        return []
    both: list[tuple[int, MatmulVariant]] = []
    for late in (False, True):
        if first := gather_variants(gemm, arch, 1, late):
            form = _gather_form(gemm, arch, late)
            both.append((_modelled(gemm, arch, form, first[0]), first[0]))
    if first := flat_variants(gemm, arch, 1):
        depths = [depth for depth in (DEPTH, DEPTH // 2) if flat.flat_of(gemm, depth)]
        time = _modelled(seen, arch, _flat_form(seen, depths), first[0])
        sizes = (size or 1 for size in ranking.known_sizes(problem_of(seen))[:3])
        both.append((time + prod(sizes) * OPERAND_BYTES // flat.STORED, first[0]))
    if not both:
        return []
    time, best = min(both, key=lambda one: one[0])
    if is_plain(gemm, arch) and may_run(gemm, arch, True):
        form = compared_form(gemm, arch, True)
        if plans := ranking.fastest(problem_of(gemm), arch, form, 1):
            copied = form.of_known((batch, m, n, k), plans[0], arch)
            moved = batch * k * n * 2 * OPERAND_BYTES
            if copied + tensor_float.LAUNCH + moved // tensor_float.BANDWIDTH < time:
                return []
    return [best]


def _modelled(gemm: Contraction, arch: str, form: ranking.Form, variant: MatmulVariant) -> int:
    """The modelled time of a plan of known sizes, in ns, the first that a form has."""
    batch, m, n, k = (size or 1 for size in ranking.known_sizes(problem_of(gemm)))
    names = {
        plan.named(str(variant.fields["loader"])): plan for plan in form.space(arch, every=True)
    }
    plan = names[variant.name]
    return form.of_known((batch, m, n, k), plan, arch)


def check_flat(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a schedule that takes rows of an operand as one where it cannot."""
    found = flat.flat_of(gemm, plan.tile_sizes[2])
    if found is None or plan.tensor_float:
        raise bad_plan(
            plan,
            f"takes rows of {gemm.rhs.name} as one, which is for an operand of 16 bits that lies "
            f"along {gemm.n}, all of it, in rows of at most {flat.MOST_ROWS} elements, no multiple "
            f"of {flat.VECTOR}, beside one that lies along {gemm.k} in rows of such multiples; "
            "use padded",
        )
    if plan.tile_sizes[0] != (wanted := flat_rows(found.length)):
        raise bad_plan(
            plan,
            f"has tiles of {plan.tile_sizes[0]} rows, and one has all {found.length} points of "
            f"{gemm.n}; make them {wanted}",
        )


def check_gather(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a schedule whose producer's threads load an operand where they cannot."""
    if gathered.gathered_of(gemm, plan.loader.data != "gather") is None or plan.tensor_float:
        raise bad_plan(
            plan,
            f"lets threads load {gemm.rhs.name}, which is for an operand of 16 bits that lies "
            f"along {gemm.n}, all of it, in rows of a known number that is no multiple of "
            f"{flat.VECTOR}, beside one that lies along {gemm.k} in rows of such multiples; use "
            "padded",
        )
