"""Which conditions hold for all threads alike, and whoever asks again gets the same answer (T2).

A tile op belongs to all threads of its scope together, so that a branch around it is taken by all
of them or by none.  Where an op runs ahead of its iteration, as a pipeline's copies do, and where
several roles decide for themselves, the condition must not change in between either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile

OF_THREAD = (hw.ThreadIdOp, hw.ElectOp, hw.ShuffleOp, hw.MatchLanesOp)
"""Ops whose result differs between the threads of a CTA."""

TOGETHER = (tile.AnyOp, hw.BarrierAnyOp)
"""Ops whose result the threads that run them find out together: it is the same for all of them,
and not for other CTAs."""

OF_CTA = (hw.BlockIdOp, hw.ClusterRankOp, tile.TileCoordinatesOp)
"""Ops whose result differs between the CTAs of a cluster, and not within one."""


@dataclass(frozen=True)
class Asked:
    """What threads have to agree on, as messages name it."""

    holder: str
    what: str

    @property
    def of_holder(self) -> str:
        return f"the {self.what} of this {self.holder}"


CONDITION = Asked("branch", "condition")
BOUND = Asked("pipeline", "bound")


def only_read(tensor: SSAValue) -> bool:
    """Whether no op of the kernel writes a tensor."""
    for use in tensor.uses:
        op = use.operation
        match op:
            case hw.LoadGlobalOp() | hw.CpAsyncOp():
                pass
            case tile.CopyOp() if op.target is not tensor:
                pass
            case tile.MapOp() if tensor not in op.outputs:
                pass
            case _:
                return False
    return True


def is_scalar(op: Operation) -> bool:
    """Whether an op only computes values, the same ones wherever in an iteration it stands.

    It has no effects, or reads a tensor that its kernel does not write.
    """
    if isinstance(op, scf.IfOp | scf.ForOp):
        return all(is_scalar(o) for r in op.regions for b in r.blocks for o in b.ops)
    if isinstance(op, hw.LoadGlobalOp):
        return only_read(op.tensor)
    # Upstream's divisions do not say that they touch no memory; no op of arith does.
    return is_side_effect_free(op) or op.dialect_name() == "arith"


def check_uniform(
    condition: SSAValue, at: Operation, cluster: bool = False, asked: Asked = CONDITION
) -> None:
    """Refuse a condition around the tile ops in ``at`` that its threads may not agree on.

    It may depend on sizes, on the CTA's and the loops' numbers, and on tensors that the kernel
    only reads.  With ``cluster`` all CTAs of a cluster must agree.  ``asked`` says what the
    condition is, where it is something else.  Raises PolycError ``VaryingCondition`` for what
    differs between threads (or CTAs), ``LateCondition`` for what is known only once the body's ops
    have run.
    """
    seen: set[SSAValue] = set()
    work = [condition]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Block):
            parent = owner.parent_op()
            if cluster and isinstance(parent, tile.TileLoopOp) and value in parent.coordinates:
                raise _between_ctas(parent, at, asked)
            work.extend(_from_block(value, owner))
        elif isinstance(owner, OF_THREAD):
            raise PolycError(
                "VaryingCondition",
                f"this {asked.holder} holds tile ops, which all threads run together, and its "
                f"{asked.what} comes from {owner.name}, which differs between threads; let it "
                "depend on sizes, coordinates and tensors that the kernel only reads",
                at,
            )
        elif isinstance(owner, OF_CTA):
            if cluster:
                raise _between_ctas(owner, at, asked)
            work.extend(owner.operands)
        elif isinstance(owner, hw.LoadGlobalOp) and not only_read(owner.tensor):
            raise PolycError(
                "LateCondition",
                f"{asked.of_holder} is read from a tensor that the kernel writes, so that it may "
                f"change before the ops of the {asked.holder} run; read it from an input",
                at,
            )
        elif isinstance(owner, hw.LoadGlobalOp):
            work.extend(v for v in owner.operands if v is not owner.tensor)
        elif isinstance(owner, CONTROL):
            work.extend(_from_control(value, owner))
        elif is_scalar(owner) and not owner.regions:
            work.extend(owner.operands)
        else:
            raise PolycError(
                "LateCondition",
                f"{asked.of_holder} depends on what {owner.name} gives, which is known only when "
                f"the ops before it have run, and the {asked.holder}'s copies run ahead of them; "
                "let it depend on sizes, coordinates and tensors that the kernel only reads",
                at,
            )


def threads_agree(value: SSAValue, cluster: bool = False) -> bool:
    """Whether all threads of a scope have the same ``value``; with ``cluster``, those of all CTAs.

    What a tensor holds is the same for who reads it at the same place.  False for what nothing
    shows to be so.
    """
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Block):
            parent = owner.parent_op()
            if not isinstance(
                parent, gpu.KernelOp | tile.RolesOp | tile.PipelineOp | scf.ForOp | tile.TileLoopOp
            ):
                return False
            if cluster and isinstance(parent, tile.TileLoopOp) and value in parent.coordinates:
                return False
            work.extend(_from_block(value, owner))
        elif isinstance(owner, OF_THREAD) or (cluster and isinstance(owner, OF_CTA)):
            return False
        elif isinstance(owner, TOGETHER):
            if cluster:
                return False
            if isinstance(owner, hw.BarrierAnyOp) and owner.offset is not None:
                work.append(owner.offset)  # threads at another barrier have another answer
        elif isinstance(owner, CONTROL):
            work.extend(_from_control(value, owner))
        elif isinstance(owner, hw.LoadGlobalOp):
            work.extend(v for v in owner.operands if v is not owner.tensor)
        elif not owner.regions and (is_scalar(owner) or isinstance(owner, OF_CTA)):
            work.extend(owner.operands)
        else:
            return False
    return True


def around(op: Operation) -> Iterator[Operation]:
    """The branches and loops around an op, up to its role or its kernel."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, tile.RolesOp | gpu.KernelOp):
        yield parent
        parent = parent.parent_op()


def agrees(op: Operation, cluster: bool = False) -> bool:
    """Whether the threads of a scope (of a cluster) take a branch, or a loop, together."""
    match op:
        case scf.IfOp():
            return threads_agree(op.cond, cluster)
        case scf.ForOp():
            return all(threads_agree(v, cluster) for v in (op.lb, op.ub, op.step))
        case tile.TileLoopOp():
            return not cluster
        case _:
            return isinstance(op, tile.PipelineOp)


def _from_block(value: SSAValue, owner: Block) -> list[SSAValue]:
    """What an argument of a kernel, a role or a loop comes from."""
    parent = owner.parent_op()
    number = owner.args.index(value)
    match parent:
        case scf.ForOp() if number == 0:
            return [parent.lb, parent.ub, parent.step]
        case scf.ForOp():
            last = owner.last_op
            assert isinstance(last, scf.YieldOp)
            return [parent.iter_args[number - 1], last.arguments[number - 1]]
        case tile.TileLoopOp() if value in parent.carried:
            place = parent.carried.index(value)
            return [*_walked(parent), parent.iter_args[place], parent.yielded[place]]
        case tile.TileLoopOp():
            return _walked(parent)
        case tile.PipelineOp():
            return [parent.bound]
        case _:
            # Of a kernel, a size; of independent consumers, a number that their threads share.
            assert isinstance(parent, gpu.KernelOp | tile.RolesOp)
            return []


def _walked(loop: tile.TileLoopOp) -> list[SSAValue]:
    """What says which tiles a loop walks."""
    return [*loop.sizes, *([] if loop.share is None else [loop.share])]


CONTROL = (scf.IfOp, scf.ForOp, tile.TileLoopOp)
"""Branches and loops, whose results are what their blocks yield."""


def _from_control(value: SSAValue, owner: scf.IfOp | scf.ForOp | tile.TileLoopOp) -> list[SSAValue]:
    """What a branch's or a loop's result comes from."""
    number = owner.results.index(value)
    match owner:
        case scf.IfOp():
            found = [owner.cond]
        case scf.ForOp():
            found = [owner.lb, owner.ub, owner.step, owner.iter_args[number]]
        case _:
            return [*_walked(owner), owner.iter_args[number], owner.yielded[number]]
    for region in owner.regions:
        for block in region.blocks:
            last = block.last_op
            assert isinstance(last, scf.YieldOp)
            found.append(last.arguments[number])
    return found


def _between_ctas(owner: Operation, at: Operation, asked: Asked) -> PolycError:
    return PolycError(
        "VaryingCondition",
        f"this {asked.holder} holds a multicast copy, which all CTAs of a cluster make together, "
        f"and its {asked.what} comes from {owner.name}, which differs between them; copy without "
        f"multicast, or let the {asked.what} depend on sizes and the loop's position",
        at,
    )


def same_value(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are the same one, or computed alike from the same ones."""
    seen: set[tuple[SSAValue, SSAValue]] = set()
    work = [(a, b)]
    while work:
        a, b = pair = work.pop()
        if a is b or pair in seen:
            continue
        seen.add(pair)
        one, other = a.owner, b.owner
        if isinstance(one, Block) or isinstance(other, Block) or type(one) is not type(other):
            return False
        alike = (
            is_scalar(one)
            and not one.regions
            and one.results.index(a) == other.results.index(b)
            and one.properties == other.properties
            and one.attributes == other.attributes
            and len(one.operands) == len(other.operands)
        )
        if not alike:
            return False
        work += zip(one.operands, other.operands, strict=True)
    return True
