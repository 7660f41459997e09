"""``index-to-region``: what will build a kernel to be, and how long that takes (S11.1).

The families' own rules and the model of time are asked, on the region as the passes before
``plan-select`` will have made it, so that partition and plans cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from xdsl.dialects.builtin import ModuleOp, StringAttr

from polyc.cost.time import TYPICAL, chosen, modelled
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention.schedules import ATTENTION
from polyc.families.conv.recognise import find_convolution
from polyc.families.loops.schedules import LOOPS
from polyc.families.registry import FAMILIES
from polyc.families.rows.recognise import find_rows
from polyc.families.rows.schedules import ROWS
from polyc.passes.plan.select import propose
from polyc.passes.region.fold_indices import fold_indices
from polyc.passes.region.merge_axes import merge_axes
from polyc.passes.region.postpone_division import postpone
from polyc.passes.region.srnf import normalise
from polyc.passes.region.streaming_softmax import stream
from polyc.rewriting.notes import unsaid

ARCH = "sm_90a"
"""The architecture whose times are compared: where memory is slow for its arithmetic least."""


MORE = 8
"""How many times the typical size of what is not known counts as much as that."""


FEW_BESIDE = 32
"""Rows side by side of which a tile is narrow."""


def contracts(kernel: KernelOp) -> bool:
    """Whether a region, which stands nowhere and is changed, runs on tensor cores everywhere."""
    with unsaid():
        found = _prepared(kernel)
        return all(_taken(found, arch) for arch in ARCHS)


def apart(kernel: KernelOp) -> str:
    """Why a region, which stands nowhere and is changed, is no attention, as a clause."""
    with unsaid():
        module = ModuleOp([kernel])
        normalise(module)
        postpone(module)
        refusals = stream(module).refused
        found = next(op for op in module.ops if isinstance(op, KernelOp))
        for arch in ARCHS:
            refused = ATTENTION.attempt(found, arch)
            if isinstance(refused, PolycError):
                why = refused.message.partition("as attention: ")[2] or refused.message
                return "; ".join([why, *(note.text for note in refusals[:1])])
    return "its plans use no tensor cores"


def walks(kernel: KernelOp) -> bool:
    """Whether a region, which stands nowhere and is changed, runs as loops, or has rows that few
    blocks walk over, and read again: those that lie side by side and that no block has in
    registers, and of known sizes such that nobody keeps.

    Where sizes are known, teams that keep rows side by side and meet are compared too, and blocks
    that have few of them in registers.
    """
    with unsaid():
        found = _prepared(kernel)
        family, plans, _ = propose(found, ARCH)
        if family is not ROWS:
            return family is LOOPS
        plan = chosen(plans, dict.fromkeys(found.symbol_names, TYPICAL))
        if plan is None:
            return False
        way, beside = plan.algo_choice.data["rows"], plan.tile_sizes[0] > 1
        if way == StringAttr("streaming"):
            return beside or not found.symbol_names
        if found.symbol_names or not beside:
            return False
        few = plan.tile_sizes[0] <= FEW_BESIDE and find_rows(found).turned
        return few or way == StringAttr("kept")


def seconds(kernel: KernelOp) -> float:
    """The modelled time of a region, which stands nowhere and is changed; nothing where it is made
    of constants alone, once.

    Sizes that are not known are taken as ``TYPICAL``.  A graph's only one is so for half of the
    time, and ``MORE`` times that, which takes a part of its time then, for the other half: a launch
    is much at the first, and nothing beside the rest at the second.
    """
    if kernel.inputs and all(tensor.is_constant for tensor in kernel.inputs):
        return 0.0
    with unsaid():
        found = _prepared(kernel)
        plans = propose(found, ARCH)[1]
        if len(found.symbol_names) != 1:
            return _at(found, plans, TYPICAL)
        return sum(_at(found, plans, TYPICAL * more) / more for more in (1, MORE)) / 2


def _at(kernel: KernelOp, plans: Sequence[ScheduleOp], size: int) -> float:
    """The modelled time of a region where all sizes that are not known are one."""
    sizes = dict.fromkeys(kernel.symbol_names, size)
    plan = chosen(plans, sizes)
    return inf if plan is None else modelled(kernel, plan, sizes).seconds


def _prepared(kernel: KernelOp) -> KernelOp:
    """A region as ``plan-select`` will see it."""
    module = ModuleOp([kernel])
    normalise(module)
    postpone(module)
    stream(module)
    fold_indices(module)
    merge_axes(module)
    return next(op for op in module.ops if isinstance(op, KernelOp))


def _taken(kernel: KernelOp, arch: str) -> bool:
    """Whether a family of products has a schedule for the region on an architecture."""
    for family in FAMILIES:
        if family.contracts:
            found = family.attempt(kernel, arch)
            if not isinstance(found, PolycError):
                # Copies of an image were faster than kernels that read its planes (an H100).
                others = (p for p in found if not _reads_planes(kernel, p))
                return any(plan.mma.data != "none" for plan in others)
    return False


def _reads_planes(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a schedule reads an image's planes tap by tap."""
    if not plan.gathers or plan.pattern != "conv":
        return False
    return not find_convolution(kernel).whole
