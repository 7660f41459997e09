"""Mutants of a right kernel, to measure what a checker of kernels catches.

A mutant differs from the kernel in one place, by one of the mistakes that break kernels in
silence: a barrier, fence or wait that is missing or too weak, a shifted phase or stage, a
wrong byte or arrival count, a wrong swizzle or descriptor field, a dropped predicate.
``mutants`` lists them in a fixed order; ``mutated`` makes one from a fresh copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.common.diagnostic import place_of
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.module import ModuleOp
from polyc.dialects.gpu.types import (
    IndexAttr,
    SharedType,
    TensorMapType,
    index_attr,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.playback.mutation.arithmetic import ARITHMETIC, Change
from polyc.rewriting.emit import Emit, affine_dim

REMOVABLE = (
    hw.BarrierOp,
    hw.NamedBarrierOp,
    hw.NamedBarrierArriveOp,
    hw.CpAsyncOp,
    hw.CpAsyncCommitOp,
    hw.CpAsyncWaitOp,
    hw.MBarrierInitOp,
    hw.MBarrierExpectOp,
    hw.MBarrierAnnounceOp,
    hw.MBarrierArriveOp,
    hw.MBarrierWaitOp,
    hw.FenceMBarrierInitOp,
    hw.FenceProxyAsyncOp,
    hw.TmaLoadOp,
    hw.TmaLoadIm2colOp,
    hw.StoreSharedOp,
    hw.StoreGlobalOp,
    hw.LdmatrixOp,
    hw.MmaSyncOp,
    hw.WgmmaOp,
    hw.WgmmaRegistersOp,
    hw.WgmmaFenceOp,
    hw.WgmmaCommitOp,
    hw.WgmmaWaitOp,
    hw.ClusterBarrierOp,
    hw.StoreClusterOp,
    hw.MBarrierArriveClusterOp,
    hw.SignalGlobalOp,
    hw.WaitGlobalOp,
    hw.PostGlobalOp,
    hw.AwaitPostsGlobalOp,
)
"""Ops without a result whose absence is a mistake.

``gpu.register_fence`` is not among them: it speaks to the compiler, the machine has no such
thing.
"""


@dataclass(frozen=True)
class Mutant:
    """One mistake: in ``kernel``, at the ``site``-th op of a walk, change ``change``."""

    kernel: str
    site: int
    change: str
    op: str
    place: str

    def __str__(self) -> str:
        return f"@{self.kernel} op {self.site} ({self.op}, {self.place}): {self.change}"


def _replace_operand(op: Operation, old: SSAValue, new: SSAValue) -> None:
    for i, operand in enumerate(op.operands):
        if operand is old:
            op.operands[i] = new
            return


def _shifted(op: Operation, value: SSAValue, modulus: int) -> Callable[[], None]:
    """Replace an index operand by the next one, modulo ``modulus``."""

    def change() -> None:
        emit = Emit()
        new = emit.apply((affine_dim(0) + 1) % modulus, [value])
        Rewriter.insert_op(emit.ops, InsertPoint.before(op))
        _replace_operand(op, value, new)

    return change


def _set(op: Operation, name: str, value: int) -> Callable[[], None]:
    def change() -> None:
        op.properties[name] = index_attr(value)

    return change


def _number(attr: IndexAttr) -> int:
    return attr.value.data


def _toggle(op: Operation, name: str) -> Callable[[], None]:
    def change() -> None:
        if name in op.properties:
            del op.properties[name]
        else:
            op.properties[name] = UnitAttr()

    return change


def _removals(op: Operation) -> Iterator[Change]:
    # A turn that is not waited for changes when things happen, and not what.
    paces = isinstance(op, hw.NamedBarrierOp) and op.paces is not None
    if isinstance(op, REMOVABLE) and not paces:
        yield "remove it", lambda: Rewriter.erase_op(op)


def _waits(op: Operation) -> Iterator[Change]:
    match op:
        case hw.CpAsyncWaitOp() | hw.WgmmaWaitOp():
            pending = _number(op.pending)
            yield f"pending {pending} -> {pending + 1}", _set(op, "pending", pending + 1)
        case hw.MBarrierWaitOp():
            yield "the other parity", _shifted(op, op.parity, 2)
        case _:
            return


def _slots(op: Operation) -> Iterator[Change]:
    match op:
        case hw.SharedAddressOp():
            assert isinstance(op.tile.type, SharedType)
            depth = op.tile.type.ring.data
            if depth > 1:
                yield "the next slot", _shifted(op, op.slot, depth)
        case (
            hw.MBarrierWaitOp()
            | hw.MBarrierArriveOp()
            | hw.MBarrierExpectOp()
            | hw.MBarrierAnnounceOp()
            | hw.MBarrierInitOp()
            | hw.TmaLoadOp()
            | hw.TmaLoadIm2colOp()
        ):
            assert isinstance(op.barrier.type, MBarrierType)
            depth = op.barrier.type.count.data
            if depth > 1:
                yield "the next barrier", _shifted(op, op.index, depth)
        case hw.NamedBarrierOp() | hw.NamedBarrierArriveOp() | hw.BarrierAnyOp():
            number = _number(op.id)
            other = number + 1 if number < 15 else number - 1
            yield f"barrier {number} -> {other}", _set(op, "id", other)
        case _:
            return


def _counts(op: Operation) -> Iterator[Change]:
    match op:
        case hw.MBarrierExpectOp() | hw.MBarrierAnnounceOp():
            size = _number(op.bytes)
            for wrong in (size - 16, size + 16):
                yield f"bytes {size} -> {wrong}", _set(op, "bytes", wrong)
        case hw.MBarrierInitOp():
            count = _number(op.count)
            for wrong in (count - 1, count + 1):
                if wrong > 0:
                    yield f"count {count} -> {wrong}", _set(op, "count", wrong)
        case hw.NamedBarrierOp() | hw.BarrierAnyOp():
            threads = _number(op.threads)
            yield f"threads {threads} -> {threads + 32}", _set(op, "threads", threads + 32)
        case _:
            return


def _layouts(op: Operation) -> Iterator[Change]:
    match op:
        case arith.XOrIOp():
            yield "no swizzle", lambda: op.result.replace_all_uses_with(op.lhs)
        case hw.WgmmaDescriptorOp():
            for name in ("leading", "stride"):
                value = _number(getattr(op, name))
                yield f"{name} {value} -> {2 * value}", _set(op, name, 2 * value)
            span = _number(op.swizzle)
            wrong = 64 if span == 128 else 128
            yield f"swizzle {span} -> {wrong}", _set(op, "swizzle", wrong)
        case hw.WgmmaOp():
            for name in ("a_offset", "b_offset"):
                value = _number(getattr(op, name))
                yield f"{name} {value} -> {value + 16}", _set(op, name, value + 16)
            for name in ("transpose_a", "transpose_b"):
                yield f"toggle {name}", _toggle(op, name)
            if op.clear is not None:
                yield "no clear", _toggle(op, "clear")
        case hw.WgmmaRegistersOp():
            register, offset = _number(op.a_register), _number(op.b_offset)
            if register >= 4:
                yield f"register {register} -> {register - 4}", _set(op, "a_register", register - 4)
            yield f"b_offset {offset} -> {offset + 16}", _set(op, "b_offset", offset + 16)
            yield "toggle transpose_b", _toggle(op, "transpose_b")
            if op.clear is not None:
                yield "no clear", _toggle(op, "clear")
        case hw.LdmatrixOp():
            yield "toggle transpose", _toggle(op, "transpose")
        case hw.TmaLoadOp():
            first = op.coordinates[0]
            yield "one row on", _shifted(op, first, 1 << 30)
            if op.mask is not None:
                yield "to this CTA only", lambda: Rewriter.replace_op(op, _alone(op))
        case hw.TmaLoadIm2colOp():
            yield "the next image", _shifted(op, op.coordinates[0], 1 << 30)
            yield "the next tap", _shifted(op, op.offsets[1], 1 << 30)
        case _:
            return


def _alone(op: hw.TmaLoadOp) -> Operation:
    new = hw.TmaLoadOp(op.map, op.coordinates, op.address, op.barrier, op.index)
    new.location = op.location
    return new


def _unguarded(op: hw.LoadGlobalOp | hw.StoreGlobalOp | hw.CpAsyncOp) -> Operation:
    match op:
        case hw.LoadGlobalOp():
            kind = op.result.type
            new: Operation = hw.LoadGlobalOp(op.tensor, op.indices, kind, None, op.fill, op.cache)
        case hw.StoreGlobalOp():
            new = hw.StoreGlobalOp(op.value, op.tensor, op.indices, None, op.promised or None)
        case hw.CpAsyncOp():
            new = hw.CpAsyncOp(op.address, op.tensor, op.indices, _number(op.bytes))
    new.location = op.location
    return new


def _predicates(op: Operation) -> Iterator[Change]:
    match op:
        case hw.LoadGlobalOp() | hw.StoreGlobalOp() | hw.CpAsyncOp():
            if op.predicate is not None:
                yield "drop the predicate", lambda: Rewriter.replace_op(op, _unguarded(op))
        case arith.CmpiOp() if op.predicate.value.data == 2:

            def loosen() -> None:
                op.properties["predicate"] = arith.CmpiOp(op.lhs, op.rhs, "sle").predicate

            yield "slt -> sle", loosen
        case _:
            return


CHANGES: tuple[Callable[[Operation], Iterator[Change]], ...] = (
    _removals,
    _waits,
    _slots,
    _counts,
    _layouts,
    _predicates,
)


def _tensor_maps(kernel: KernelOp) -> Iterator[Change]:
    """A tensor map whose swizzle is not the one that the readers expect."""
    for arg in kernel.body.block.args:
        kind = arg.type
        if isinstance(kind, TensorMapType) and kind.swizzle.data == 128:
            wrong = TensorMapType.of(kind.sizes, kind.element_type, 0)
            name = arg.name_hint or f"argument {arg.index}"
            yield (
                f"swizzle of {name} 128 -> 0",
                lambda arg=arg, wrong=wrong: _retype(arg, wrong),
            )


def _retype(value: SSAValue, kind: TensorMapType) -> None:
    Rewriter.replace_value_with_new_type(value, kind)


Rules = Sequence[Callable[[Operation], Iterator[Change]]]
Site = tuple[KernelOp, int, Operation, str, Callable[[], None]]


def _sites(module: ModuleOp, rules: Rules, of: Mutant | None = None) -> Iterator[Site]:
    """Where something can be changed, and how; with ``of``, at the op of that mutant alone."""
    for kernel in module.kernels():
        if of is not None and kernel.sym_name.data != of.kernel:
            continue
        if CHANGES[0] in rules:
            for text, change in _tensor_maps(kernel):
                yield kernel, 0, kernel, text, change
        for site, op in enumerate(kernel.walk()):
            for rule in rules if of is None or site == of.site else ():
                for text, change in rule(op):
                    yield kernel, site, op, text, change


def mutants(module: ModuleOp, rules: Rules = CHANGES) -> list[Mutant]:
    """Every mutant of the module's kernels by some rules, in the order of the text.

    ``CHANGES`` are the mistakes of synchronisation and access, ``ARITHMETIC`` of
    ``mutation_arithmetic.py`` those of what is computed.
    """
    found: list[Mutant] = []
    for kernel, site, op, text, _ in _sites(module, rules):
        place = place_of(op)
        found.append(
            Mutant(kernel.sym_name.data, site, text, op.name, str(place) if place else "?")
        )
    return found


def mutated(module: ModuleOp, mutant: Mutant) -> ModuleOp:
    """A copy of ``module`` with the mistake in it.

    Raises ValueError when the mutant is of another module.  The copy may not verify: a
    mistake that the verifier refuses is caught there.
    """
    copy = module.clone()
    for old, new in zip(module.walk(), copy.walk(), strict=True):
        new.location = old.location
    for kernel, site, op, text, change in _sites(copy, (*CHANGES, *ARITHMETIC), mutant):
        key = (kernel.sym_name.data, site, text, op.name)
        if key == (mutant.kernel, mutant.site, mutant.change, mutant.op):
            change()
            return copy
    raise ValueError(f"the module has no place for {mutant}")
