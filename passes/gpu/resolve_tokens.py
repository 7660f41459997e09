"""``gpu-resolve-tokens``: what is awaited by name, by count (T2).

The hardware counts: a warpgroup can wait until all but its ``n`` newest groups of wgmma are
complete, and a thread the same for its groups of cp.async.  Tokens say which op is meant, so the
counts follow from the program's text; and a text that would wait for nothing, or read an
accumulator that the tensor cores still write, is refused.

The token of a store by TMA promises that the tile has been *read*, and may be filled again or go
with its CTA; the tensor has the elements when the kernel has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentType,
    SharedType,
    index_attr,
)
from polyc.dialects.gpu.waiting import TokenType
from polyc.passes.support.gpu.scope import scope_barrier
from polyc.passes.support.gpu.tile_effects import writes
from polyc.passes.support.gpu.tile_stores import Writers
from polyc.passes.support.gpu.token_state import Flight, State, awaited, youngest
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit

DEEPEST = 7
"""The most groups that may stay unfinished at a wait."""


class ResolveTokens:
    """Walk a kernel in the order of its text, and keep what is under way.

    A loop must end an iteration with the same ops under way as it began with, those that it
    carries by the tokens that it yields, so that one text is right for every iteration.
    """

    def __init__(self, rewriter: PatternRewriter) -> None:
        self.rewriter = rewriter
        self.complete: set[SSAValue] = set()
        """Tokens of ops that are complete when they are issued: contracts by mma.sync."""

    def block(self, block: Block, state: State) -> None:
        for op in list(block.ops):
            self.op(op, state)

    def op(self, op: Operation, state: State) -> None:
        match op:
            case tile.ContractOp():
                self.contract(op, state)
            case tile.AwaitOp():
                self.wait(op, state)
            case tile.CopyOp() if op.token is not None or is_bulk_store(op):
                self.check_access(op, state)
                self.copied(op, state)
            case scf.ForOp():
                self.loop(op, state)
            case scf.IfOp():
                self.branch(op, state)
            case tile.RolesOp():
                for region in (op.producer, op.consumer):
                    self.nothing_left(region.block, state.copy())
            case tile.TileLoopOp() | tile.PipelineOp():
                start = state.copy()
                self.block(op.body.block, state)
                self.check_loop(op, start, state)
                state.become(start.met(state))
            case _:
                self.check_access(op, state)

    def nothing_left(self, block: Block, state: State) -> None:
        """Run a block at whose end no token may be unspent."""
        self.block(block, state)
        for flight in state.flights:
            if flight.token is not None:
                raise never(flight.token)

    def contract(self, op: tile.ContractOp, state: State) -> None:
        if op.token is not None and not op.token.uses.get_length():
            raise never(op.token)
        if op.mma.data != "wgmma":
            self.check_access(op, state)
            if op.token is not None:
                self.complete.add(op.token)
            return
        lhs = op.lhs if isinstance(op.lhs.type, FragmentType) else None
        if lhs is not None:
            self.check_read(op, lhs, state)
        if any(f.lhs is op.acc for f in state.contracts):
            raise in_flight(op, op.acc, "is read")
        state.contracts.append(Flight(op.token, op.acc, lhs))

    def copied(self, op: tile.CopyOp, state: State) -> None:
        if op.token is not None and not op.token.uses.get_length():
            raise never(op.token)
        if is_bulk_store(op):
            state.stores.append(Flight(op.token, tile=op.source if op.token is not None else None))
            return
        if not op.is_load or op.loader is None or op.loader.data != "cp_async":
            raise PolycError(
                "NotLowered",
                "a token is of a contract, of a load by cp.async or of a store by TMA; a TMA load "
                "in a pipeline signals a ring, and a copy through registers is done when it is "
                "issued",
                op,
            )
        self.rewriter.insert(located(hw.CpAsyncCommitOp(), op), InsertPoint.after(op))
        state.copies.append(Flight(op.token))

    def wait(self, op: tile.AwaitOp, state: State) -> None:
        if not op.tokens:
            if op.pending is not None:
                state.contracts[:] = youngest(state.contracts, op.depth)
            return
        for token in op.tokens:
            if token in state.spent:
                raise PolycError(
                    "TokenAwaitedTwice",
                    f"{name(token)} was awaited, or handed on, before; await what its op gave once",
                    op,
                )
            state.spent.add(token)
        emit = Emit()
        tokens = [t for t in op.tokens if t not in self.complete]
        for flights in state.queues:
            at = [i for i, f in enumerate(flights) if f.token in tokens]
            contracts = flights is state.contracts
            if not at and not (contracts and any(made_by_contract(t) for t in tokens)):
                continue
            finished = flights[: at[-1] + 1] if at else []
            del flights[: len(finished)]
            state.done |= set(awaited(finished))
            younger = sum(flight.sure for flight in flights)
            if younger > DEEPEST:
                raise PolycError(
                    "ResourceExceeded",
                    f"{younger} younger ops are under way, and the hardware keeps {DEEPEST} "
                    "apart; await earlier",
                    op,
                )
            if contracts:
                busy = [f.acc for f in flights]
                ready = dict.fromkeys(
                    f.acc for f in finished if f.acc is not None and f.acc not in busy
                )
                emit.op(tile.AwaitOp(younger, ready=list(ready)))
            elif flights is state.copies:
                emit.op(hw.CpAsyncWaitOp(younger))
                scope_barrier(emit, op)
            else:
                wait_until_read(emit, op, younger)
        for new in emit.ops:
            located(new, op)
        self.rewriter.replace(op, emit.ops, [])

    # Control

    def loop(self, op: scf.ForOp, state: State) -> None:
        carried = [
            (i, init, arg, result)
            for i, (init, arg, result) in enumerate(
                zip(op.iter_args, op.body.block.args[1:], op.res, strict=True)
            )
            if isinstance(init.type, TokenType)
        ]
        for _, init, arg, _ in carried:
            if init in state.spent:
                raise PolycError(
                    "TokenAwaitedTwice",
                    f"{name(init)} was awaited, or handed on, before the loop that carries it",
                    op,
                )
            if not arg.uses.get_length():
                raise never(arg)
        start = state.renamed({init: arg for _, init, arg, _ in carried})
        body = start.copy()
        last = op.body.block.last_op
        assert isinstance(last, scf.YieldOp)
        self.block(op.body.block, body)
        yielded = [last.arguments[i] for i, *_ in carried]
        for value in yielded:
            if value in body.spent:
                raise PolycError(
                    "TokenAwaitedTwice",
                    f"the loop carries {name(value)} on, which was awaited before",
                    op,
                )
        after = body.renamed({v: arg for v, (_, _, arg, _) in zip(yielded, carried, strict=True)})
        self.check_loop(op, start, after)
        for _, _, _, result in carried:
            if not result.uses.get_length():
                raise never(result)
        state.become(start.met(after).renamed({arg: result for _, _, arg, result in carried}))

    def branch(self, op: scf.IfOp, state: State) -> None:
        ends: list[State] = []
        for region in (op.true_region, op.false_region):
            end = state.copy()
            if region.blocks:
                self.block(region.block, end)
            ends.append(end)
        if not ends[0].same(ends[1]):
            raise PolycError(
                "TokenFlow",
                "the branches leave different ops under way, so that nothing after them can count; "
                "await in both or in none",
                op,
            )
        state.become(ends[0].met(ends[1]))

    def check_loop(self, op: Operation, start: State, end: State) -> None:
        if start.same(end):
            return
        before, after = awaited(start.flights), awaited(end.flights)
        for token in after:
            if token not in before:
                raise never(token)
        raise PolycError(
            "TokenFlow",
            f"an iteration begins with {len(before)} ops under way and ends with {len(after)} or "
            "in another order; await them in the loop, or let it carry their tokens",
            op,
        )

    # Accesses of fragments

    def check_access(self, op: Operation, state: State) -> None:
        written = set(writes(op))
        for flight in state.stores:
            kind = None if flight.tile is None else flight.tile.type
            if flight.tile in written and isinstance(kind, SharedType) and kind.ring.data == 1:
                raise PolycError(
                    "TileInFlight",
                    f"{op.name} fills a tile that a store under way still reads; await the "
                    "store's token before, or fill another slot",
                    op,
                )
        if not state.contracts:
            return
        for inner in op.walk():
            for value in inner.operands:
                if isinstance(value.type, FragmentType):
                    self.check_read(op, value, state)
        for flight in state.contracts:
            if flight.lhs is not None and flight.lhs in written:
                raise in_flight(op, flight.lhs, "is written")

    @staticmethod
    def check_read(op: Operation, value: SSAValue, state: State) -> None:
        if any(f.acc is value for f in state.contracts):
            raise in_flight(op, value, "is used")


def is_bulk_store(op: tile.CopyOp) -> bool:
    """Whether TMA brings a tile to a tensor."""
    return op.is_store and op.loader is not None and op.loader.data == "tma"


def wait_until_read(emit: Emit, op: Operation, younger: int) -> None:
    """Wait until all stores but the ``younger`` newest have read their tiles.

    Only the thread that issued them can; the others meet it.
    """
    one = Writers(1, 0)
    wait = hw.BulkWaitOp(younger, read=True)
    leads = one.leads(emit, op)
    if leads is None:
        emit.op(wait)
    else:
        emit.when(leads, lambda then: then.ops.append(wait))
        one.meet(emit, op)


def made_by_contract(token: SSAValue) -> bool:
    """Whether a token is a contract's; one that a loop carries is what the loop began with."""
    owner = token.owner
    while isinstance(owner, Block | scf.ForOp):
        if isinstance(owner, Block):
            loop = owner.parent_op()
            assert isinstance(loop, scf.ForOp)
            token = loop.iter_args[owner.args.index(token) - 1]
        else:
            token = owner.iter_args[owner.results.index(token)]
        owner = token.owner
    return isinstance(owner, tile.ContractOp)


def name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "this token"


def never(token: SSAValue) -> PolycError:
    owner = token.owner if isinstance(token.owner, Operation) else token.owner.parent_op()
    return PolycError(
        "TokenNeverAwaited",
        f"nothing awaits {name(token)}, so that nothing knows when its op is complete; put a "
        "gpu.await where its result is needed",
        owner,
    )


def in_flight(op: Operation, value: SSAValue, what: str) -> PolycError:
    return PolycError(
        "AccumulatorInFlight",
        f"{op.name}: {name(value)} {what} while a contract on it is under way; await its token "
        "before",
        op,
    )


class ResolveKernel(RewritePattern):
    """Resolve the tokens of a kernel that has some; legality as ``ResolveTokens`` says."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.KernelOp, rewriter: PatternRewriter) -> None:
        if not any(isinstance(r.type, TokenType) for o in op.walk() for r in o.results):
            return
        ResolveTokens(rewriter).nothing_left(op.body.block, State())
        for loop in [o for o in op.walk() if isinstance(o, scf.ForOp)]:
            drop_tokens(loop, rewriter)
        for inner in list(op.walk()):
            if isinstance(inner, tile.ContractOp | tile.CopyOp) and inner.token is not None:
                forget(inner, rewriter)


def drop_tokens(op: scf.ForOp, rewriter: PatternRewriter) -> None:
    """Carry no tokens any more: awaits count by now."""
    gone = [i for i, v in enumerate(op.iter_args) if isinstance(v.type, TokenType)]
    if not gone:
        return
    body = op.body.detach_block(0)
    last = body.last_op
    assert isinstance(last, scf.YieldOp)
    kept = [v for i, v in enumerate(last.arguments) if i not in gone]
    rewriter.replace(last, scf.YieldOp(*kept))
    for i in reversed(gone):
        body.erase_arg(body.args[i + 1], safe_erase=False)
    inits = [v for i, v in enumerate(op.iter_args) if i not in gone]
    new = scf.ForOp(op.lb, op.ub, op.step, inits, body)
    new.attributes.update(op.attributes)
    located(new, op)
    results = iter(new.results)
    for i, old in enumerate(op.results):
        if i not in gone:
            old.replace_all_uses_with(next(results))
    rewriter.insert(new, InsertPoint.before(op))
    rewriter.erase(op, safe_erase=False)


def forget(op: tile.ContractOp | tile.CopyOp, rewriter: PatternRewriter) -> None:
    """The same op without its token; a store then counts as ordered, by its author."""
    bare = type(op).create(operands=op.operands, properties=op.properties, attributes=op.attributes)
    if isinstance(bare, tile.CopyOp) and is_bulk_store(bare):
        bare.store_groups = index_attr(1)
    located(bare, op)
    rewriter.insert(bare, InsertPoint.before(op))
    rewriter.erase(op, safe_erase=False)


@dataclass(frozen=True)
class GpuResolveTokens(ModulePass):
    """Count what awaits name."""

    name = "gpu-resolve-tokens"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ResolveKernel()])
