"""``gpu-group-functions``: functions that branch are asked for some elements at once.

A division, a sine or a cosine takes a short way for most numbers and a long one for the others.
Asked element by element, each is a branch that nothing moves across: one element's function waits
for the end of another's, and the long way stands in the code as often.  The printer has functions
of vectors that go the short way for all elements side by side and branch once
(``lowering/gpu_to_cuda/short_ways.py``); here scalar functions become these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith, math, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.scalars import is_approximate, is_one
from polyc.dialects.gpu.types import vector_of
from polyc.passes.support.gpu.registers import OWN, places_of, room_of, turns
from polyc.passes.support.gpu.symbols import constant_of, enclosing_kernel
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.effects import Effect, effect_of
from polyc.rewriting.emit import Emit, affine_dim, clone_into

MOST = 8
"""Elements of a group: as many hide the steps of each other, and have registers."""

LEAST = 4
"""Elements from which on a group is shorter than its branches."""

PAIR = 2
"""Elements of a group where a thread has no registers left for more."""

PAIRED = 40
"""Registers of a thread beside what it reads and writes, for a pair."""

FEW = 384
"""Threads of a multiprocessor up to which pairs are worth their registers: of more the warps hide
each other's steps, and a tile of f32 of 512 spilled.  Quotients are no pairs, which hold more: they
spilled beside a tensor that is read."""

EACH = 13
"""Registers that are left to a thread for each element of a group: by 10 an exact product of f32
spilled, whose tile fills a thread's."""

_ASKED = frozenset[type[Operation]]((math.SinOp, math.CosOp, arith.DivfOp))

Kind = tuple[type[Operation], bool]
"""A function: its op, and whether it divides 1."""


def kind_of(op: Operation) -> Kind | None:
    """The function of numbers that an op asks, of those that branch and have a short way."""
    if type(op) not in _ASKED or op.results[0].type != f32:
        return None
    if not isinstance(op, arith.DivfOp):
        return type(op), False
    over_one = is_one(op.lhs)
    by_known = isinstance(op.rhs.owner, arith.ConstantOp) or (over_one and is_approximate(op))
    return None if by_known else (type(op), over_one)


class WidenTurns(RewritePattern):
    """An unrolled loop whose turns ask few functions → one of fewer turns that ask more.

    Legality, exact: the loop goes from 0 by a constant step to a constant bound, carries nothing
    and holds no other loop or branch; its turns follow each other as before.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        over = turns(op)
        body = [inner for inner in op.body.block.ops if not isinstance(inner, scf.YieldOp)]
        if over is None or all(kind_of(inner) is None for inner in body):
            return
        most = _most(enclosing_kernel(op), op.body.block)
        kinds = [kind for inner in body if (kind := _kind_in(inner, most)) is not None]
        if not kinds:
            return
        each, many = max(map(kinds.count, kinds)), len(over)
        together = next((n for n in range(many, 1, -1) if many % n == 0 and n * each <= most), 1)
        if together == 1 or together * each < _least(most):
            return

        def some(inner: Emit, at: SSAValue) -> None:
            for turn in range(together):
                place = inner.apply(affine_dim(0) + turn * over.step, [at]) if turn else at
                clone_into(body, {op.body.block.args[0]: place}, inner)

        emit = Emit()
        hint = op.body.block.args[0].name_hint
        emit.loop(over.stop, some, step=together * over.step, unroll=True, hint=hint)
        for one in emit.ops:
            located(one, op)
        rewriter.replace(op, emit.ops, [])


class GroupFunctions(RewritePattern):
    """Scalar functions of a block that do not follow from each other → one of a vector.

    Legality, exact: what follows from the first functions is brought behind the last one.  It is
    pure, or reads or writes registers or a tensor that nothing on the way there does, but for what
    reads and reads.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        for block in _blocks(op):
            kinds = Counter(kind_of(one) for one in block.ops)
            if max((many for kind, many in kinds.items() if kind is not None), default=0) < PAIR:
                continue  # Nothing is a group, whatever registers are left.
            done, most = set[Operation](), _most(op, block)
            while most and (group := _next_group(block, done, most)) is not None:
                group.build(rewriter)


def _most(kernel: KernelOp, block: Block) -> int:
    """How many elements a group has registers for, beside what a block reads and writes."""
    room = room_of(kernel, (op for one in block.ops for op in one.walk()))
    if room // EACH < LEAST:
        threads = kernel.threads.value.data * kernel.blocks_per_sm.value.data
        return PAIR if room >= PAIRED - OWN and threads <= FEW else 0
    return min(MOST, room // EACH)


def _kind_in(op: Operation, most: int) -> Kind | None:
    """The function that an op asks, where a group of ``most`` elements may have it."""
    kind = kind_of(op)
    return None if kind is not None and most < LEAST and kind[0] is arith.DivfOp else kind


def _least(most: int) -> int:
    """Elements of a group at least, where it may have so many."""
    return max(PAIR, min(LEAST, most))


def _next_group(block: Block, done: set[Operation], most: int) -> _Group | None:
    """The first group of a block that does not begin with what is ``done``, which learns more."""
    for op in block.ops:
        if op not in done and (kind := _kind_in(op, most)) is not None:
            done.add(op)
            group = _Group.of(op, kind, most)
            if len(group.members) >= _least(most):
                return group
    return None


def _blocks(op: Operation) -> Iterator[Block]:
    for one in list(op.walk()):
        for region in one.regions:
            yield from region.blocks


@dataclass
class _Group:
    """Functions that are asked at once, and what is ``delayed`` until the last of them is known."""

    members: list[Operation]
    delayed: list[Operation] = field(default_factory=list[Operation])

    @staticmethod
    def of(first: Operation, kind: Kind, most: int) -> _Group:
        """The functions that can be asked with ``first``, which come behind it, ``most`` in all."""
        group, known, waiting = _Group([first]), {first}, list[Operation]()
        op = first.next_op
        while op is not None and len(group.members) < most:
            if any(value.owner in known for inner in op.walk() for value in inner.operands):
                if _memory(op) is None:
                    break
                known.add(op)
                waiting.append(op)
            elif any(_collide(one, op) for one in waiting):
                break
            elif kind_of(op) == kind:
                group.members.append(op)
                known.add(op)
                group.delayed = list(waiting)
            op = op.next_op
        return group

    def build(self, rewriter: PatternRewriter) -> None:
        """The group in the place of its last function."""
        last, emit, count = self.members[-1], Emit(), len(self.members)
        operands = zip(*(member.operands for member in self.members), strict=True)
        whole = type(last).create(
            operands=[emit.value(hw.PackOp(every)) for every in operands],
            result_types=[vector_of(f32, count)],
            properties=dict(last.properties),
            attributes=dict(last.attributes),
        )
        found = emit.value(whole)
        parts = [emit.value(hw.UnpackOp(found, number)) for number in range(count)]
        for one in emit.ops:
            located(one, last)
        rewriter.insert(emit.ops, InsertPoint.after(last))
        end = emit.ops[-1]
        for one in self.delayed:
            one.detach()
            rewriter.insert(one, InsertPoint.after(end))
            end = one
        for member, part in zip(self.members, parts, strict=True):
            part.name_hint = member.results[0].name_hint
            rewriter.replace(member, [], [part])


def _memory(op: Operation) -> tuple[SSAValue | None, bool] | None:
    """What an op reads or writes of registers and tensors, and whether it writes; None of what may
    not run later."""
    match op:
        case memref.LoadOp():
            return op.memref, False
        case memref.StoreOp():
            return op.memref, True
        case hw.LoadGlobalOp():
            return op.tensor, False
        case hw.StoreGlobalOp():
            return op.tensor, True
        case _:
            pure = isinstance(op, vector.BitcastOp) or effect_of(op) is Effect.NONE
            return (None, False) if pure and not op.regions else None


def _collide(first: Operation, second: Operation) -> bool:
    """Whether the order of two ops counts."""
    mine, theirs = _memory(first), _memory(second)
    if mine is None or (mine[0] is not None and theirs is None):
        return True
    if theirs is None or mine[0] is not theirs[0] or mine[0] is None:
        return False
    return (mine[1] or theirs[1]) and not _are_apart(first, second)


def _are_apart(first: Operation, second: Operation) -> bool:
    """Whether two accesses of an array of registers are of different places in every turn."""
    if not all(isinstance(op, memref.LoadOp | memref.StoreOp) for op in (first, second)):
        return False
    rows = [_turns_of(op) for op in (first, second)]
    return None not in rows and all(
        a != b for a, b in zip(*(row or [] for row in rows), strict=True)
    )


def _turns_of(op: Operation) -> Sequence[int] | None:
    """The place of an access in each turn of the loop that it stands in; once where it has none."""
    assert isinstance(op, memref.LoadOp | memref.StoreOp)
    around = op.parent_op()
    if len(op.indices) != 1:
        return None
    if not isinstance(around, scf.ForOp):
        only = constant_of(op.indices[0])
        return None if only is None else [only]
    low, high, step = (constant_of(v) for v in (around.lb, around.ub, around.step))
    if low is None or high is None or not step:
        return None
    return places_of(op.indices[0], around.body.block.args[0], range(low, high, step))


@dataclass(frozen=True)
class GpuGroupFunctions(ModulePass):
    """Ask functions that branch for some elements at once."""

    name = "gpu-group-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [WidenTurns()], inner_first=True)
        rewrite(op, [GroupFunctions()])
