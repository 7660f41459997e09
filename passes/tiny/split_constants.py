"""``tiny-split-constants``: what a graph computes of parameters alone, in a second one (S12.2).

A program that keeps its parameters runs that graph once, when they are bound, and its results are
constants of the graph that runs in every call: a weight that is cast, a folded norm, weights that
are put together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, bf16, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.cost.values import size_in_bytes
from polyc.dialects import tiny
from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import ELEMENTS
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.index import is_widening
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show

COMPUTING = (
    *(tiny.UnaryOp, tiny.BinaryOp, tiny.CompareOp, tiny.SelectOp, tiny.ReduceOp, tiny.CastOp),
    *(tiny.BitcastOp, tiny.SortOp, tiny.GatherOp, tiny.ScanOp),
)
"""Ops whose results are worth keeping; a movement costs a reader nothing."""

SMALL = 4096
"""Elements below which a cast alone stays with who reads it."""

GROWTH = 2
"""How many times the bytes of the parameters that it is made of a constant may have."""

LITTLE = 1 << 18
"""Bytes that a constant may have in any case."""

LOOKED_UP = 1 << 23
"""The same of one that is made by a look-up, as a bias of positions: it would lie in memory in each
call."""

BYTES: dict[Attribute, int] = {element: size_in_bytes(element) for element in ELEMENTS}


class SplitConstants(RewritePattern):
    """A ``tiny.graph`` with parameters → the same reading what a second graph makes of them.

    A parameter is an input of the constant pool whose sizes are numbers.  A value that is computed
    of parameters alone becomes an input ``{storage = "const_pool", made = "<graph>.<output>"}``,
    where something else reads it; movements and widening casts stay with their readers, so that
    nothing is kept that repeats itself.  Exact: a value is kept in f32, or in a narrower type that
    holds every number that it may be, or in the type in which it may be stored anywhere (``own``).

    Legal for a graph that has data; worth it where the value is not larger than ``GROWTH`` times
    the parameters that it is made of, or is ``LITTLE``, and is more than a cast of a ``SMALL``
    tensor.
    """

    def __init__(self, report: Report | None = None) -> None:
        self.report = report

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.GraphOp, rewriter: PatternRewriter, /) -> None:
        found = _Split(op)
        if all(arg in found.sources for arg in op.body.block.args):
            return  # it has no data: it is such a second graph, or a program of constants
        cuts = found.cuts()
        if not cuts:
            return
        name = _unlike(f"{op.sym_name.data}_made", _names_around(op))
        taken = {n.data for n in (*op.arg_names, *op.res_names)} | set(op.symbol_names)
        made = [(value, found.kind(value)) for value in cuts]
        outputs: list[str] = []
        for _ in made:
            outputs.append(_unlike("made0", taken, len(outputs)))
            taken.add(outputs[-1])
        rewriter.insert(located(found.graph(name, made, outputs), op), InsertPoint.before(op))
        if self.report is not None:
            for (value, kind), output in zip(made, outputs, strict=True):
                sources = ", ".join(found.names(value))
                size = prod(d.constant() or 0 for d in tiny.tensor_of(value).dims) * BYTES[kind]
                text = (
                    f"{output}, {kind} {shape_text(tiny.tensor_of(value).dims)}, {size} bytes, is "
                    f"made of {sources} once, when they are bound"
                )
                self.report.fired.append(Note("MadeOnce", text, _op_of(value, op)))
        found.replace(name, made, outputs, rewriter)


@dataclass
class _Split:
    """The values of a graph that parameters alone decide, and what is made once of them."""

    op: tiny.GraphOp
    sources: dict[SSAValue, frozenset[SSAValue]] = field(init=False)
    """The parameters that a value is made of, for those that are made of nothing else."""

    def __post_init__(self) -> None:
        none = frozenset[SSAValue]()
        block = self.op.body.block
        self.sources = {}
        for spec, arg in zip(self.op.inputs, block.args, strict=True):
            held = spec.storage is not None and spec.mutability == "immutable"
            if held and _is_constant(arg):
                self.sources[arg] = frozenset([arg])
        symbols = set(self.op.symbol_names)
        for op in block.ops:
            known = all(o in self.sources for o in op.operands)
            kinds = tiny.ConstantOp | MovementOp | COMPUTING_TYPES
            if known and isinstance(op, kinds) and not _says(op, symbols):
                made = none.union(*(self.sources[o] for o in op.operands))
                if all(_is_constant(r) for r in op.results):
                    self.sources |= dict.fromkeys(op.results, made)

    def cuts(self) -> list[SSAValue]:
        """The values that are made once, in the order of the graph."""
        found: set[SSAValue] = set()
        seen: set[SSAValue] = set()
        for op in self.op.body.block.ops:
            if not op.results or any(r not in self.sources for r in op.results):
                for operand in op.operands:
                    self._cut(operand, found, seen)
        order = [r for op in self.op.body.block.ops for r in op.results]
        return [v for v in order if v in found and not self._is_beside(v, found)]

    def _is_beside(self, value: SSAValue, found: Collection[SSAValue]) -> bool:
        """Whether a condition asks something of a value that is kept, number by number: who reads
        both asks as well."""
        op = value.owner
        if not isinstance(op, tiny.CompareOp):
            return False
        read = [_unmoved(o, found) for o in op.operands]
        read = [o for o in read if self.sources.get(o)]
        return bool(read) and all(o in found for o in read)

    def _cut(self, value: SSAValue, found: set[SSAValue], seen: set[SSAValue]) -> None:
        """Add what of a value, which something else reads, is made once."""
        if value in seen or not self.sources.get(value):
            return
        seen.add(value)
        op = value.owner
        if not isinstance(op, Operation):
            return
        if self._is_worth_it(value, op):
            found.add(value)
            return
        for operand in op.operands:
            self._cut(operand, found, seen)

    def _is_worth_it(self, value: SSAValue, op: Operation) -> bool:
        if isinstance(op, tiny.PermuteOp | tiny.ReshapeOp):
            # What is looked up is kept as it is read.
            inner = _in_order(value).owner
            return isinstance(inner, tiny.GatherOp) and self._is_worth_it(inner.result, inner)
        if not isinstance(op, COMPUTING) or _widens(op):
            return False
        elements = _elements(value)
        if isinstance(op, tiny.GatherOp) and all(map(_is_place, op.operands[1:])):
            return False  # rows that follow each other are read where they are
        size = elements * BYTES[self.kind(value)]
        whole = sum(_elements(s) * BYTES[_element(s)] for s in self.sources[value])
        # What is made of a look-up and repeats it, for each text say, is made where it is read.
        little = LOOKED_UP if elements <= _looked_up(value) else LITTLE
        if size > max(GROWTH * whole, little):
            return False
        return elements >= SMALL or not _is_cast(value)

    def kind(self, value: SSAValue) -> Attribute:
        """The type in which a value is kept."""
        element = _element(value)
        if element != f32:
            return element
        own = None if _is_given(value) else _own(value)
        return own or _held_in(value) or element

    def names(self, value: SSAValue) -> list[str]:
        """The parameters that a value is made of, as a file names them."""
        args = list(self.op.body.block.args)
        specs = self.op.inputs
        return [specs[i].pooled or "" for i, arg in enumerate(args) if arg in self.sources[value]]

    def graph(
        self, name: str, made: Sequence[tuple[SSAValue, Attribute]], outputs: Sequence[str]
    ) -> tiny.GraphOp:
        """The graph that makes values of parameters."""
        args, specs = list(self.op.body.block.args), self.op.inputs
        used = [i for i, a in enumerate(args) if any(a in self.sources[v] for v, _ in made)]
        kinds = [tiny.tensor(tiny.tensor_of(v).dims, kind) for v, kind in made]
        found = tiny.GraphOp(
            name,
            [args[i].type for i in used],
            kinds,
            arg_names=[specs[i].name for i in used],
            res_names=outputs,
            arg_attrs=[self.op.arg_attrs.data[i].data for i in used],
        )
        block = found.body.block
        values: dict[SSAValue, SSAValue] = dict(
            zip((args[i] for i in used), block.args, strict=True)
        )
        needed = _behind(v for v, _ in made)
        for op in self.op.body.block.ops:
            if op in needed:
                copy = op.clone(values)
                copy.location = op.location
                block.add_op(copy)
        results: list[SSAValue] = []
        for value, kind in made:
            result = values[value]
            if _element(result) != kind:
                cast = located(tiny.CastOp(result, kind), _op_of(value, self.op))
                block.add_op(cast)
                result = cast.result
            results.append(result)
        block.add_op(tiny.OutputOp(results))
        return found

    def replace(
        self,
        name: str,
        made: Sequence[tuple[SSAValue, Attribute]],
        outputs: Sequence[str],
        rewriter: PatternRewriter,
    ) -> None:
        """Read what is made in the place of what makes it, and drop what nothing reads then."""
        op, block = self.op, self.op.body.block
        names = [n.data for n in op.arg_names]
        attrs: list[Mapping[str, Attribute]] = [a.data for a in op.arg_attrs]
        first = block.first_op
        assert first is not None
        for (value, kind), output in zip(made, outputs, strict=True):
            dims = tiny.tensor_of(value).dims
            arg: SSAValue = rewriter.insert_block_argument(
                block, len(block.args), tiny.tensor(dims, kind)
            )
            arg.name_hint = output
            names.append(output)
            attrs.append(_KEPT | {"made": StringAttr(f"{name}.{output}")})
            if _element(value) != kind:
                cast = located(tiny.CastOp(arg, _element(value)), _op_of(value, op))
                rewriter.insert(cast, InsertPoint.before(first))
                arg = cast.result
            rewriter.replace_all_uses_with(value, arg)
        for one in reversed(list(block.ops)):
            if one.results and not any(r.first_use for r in one.results):
                rewriter.erase(one)
        before = len(names) - len(made)
        for number in reversed(range(before)):
            arg = block.args[number]
            if arg in self.sources and arg.first_use is None:
                rewriter.erase_block_argument(arg)
                del names[number], attrs[number]
        graph = tiny.GraphOp(
            op.sym_name.data,
            [arg.type for arg in block.args],
            list(op.function_type.outputs),
            rewriter.move_region_contents_to_new_regions(op.body),
            arg_names=names,
            res_names=[n.data for n in op.res_names],
            arg_attrs=attrs,
            res_attrs=[a.data for a in op.res_attrs],
            assumptions=op.facts,
        )
        graph.attributes |= op.attributes
        rewriter.replace(op, located(graph, op))


COMPUTING_TYPES = (
    tiny.UnaryOp
    | tiny.BinaryOp
    | tiny.CompareOp
    | tiny.SelectOp
    | tiny.ReduceOp
    | tiny.CastOp
    | tiny.BitcastOp
    | tiny.SortOp
    | tiny.GatherOp
    | tiny.ScanOp
    | tiny.IotaOp
    | tiny.DimOp
)

_KEPT = {"role": StringAttr("param"), "storage": StringAttr("const_pool")}


def _element(value: SSAValue) -> Attribute:
    return tiny.tensor_of(value).element_type


def _elements(value: SSAValue) -> int:
    return prod(dim.constant() or 0 for dim in tiny.tensor_of(value).dims)


def _is_constant(value: SSAValue) -> bool:
    return all(dim.constant() is not None for dim in tiny.tensor_of(value).dims)


def _says(op: Operation, symbols: set[str]) -> bool:
    """Whether an op speaks of a symbol of its graph, or may: the second graph has none."""
    if not symbols:
        return False
    if isinstance(op, tiny.MaskOp):
        return True  # its condition counts the symbols
    words = (re.findall(r"[A-Za-z_]\w*", str(attr)) for attr in op.properties.values())
    return any(word in symbols for several in words for word in several)


def _widens(op: Operation) -> bool:
    return isinstance(op, tiny.CastOp) and is_widening(op.result)


def _is_cast(value: SSAValue) -> bool:
    """Whether a value is a parameter in another type, moved or not."""
    while isinstance(op := value.owner, tiny.CastOp | MovementOp):
        value = op.operands[0]
    return not isinstance(op, Operation)


def _unmoved(value: SSAValue, found: Collection[SSAValue]) -> SSAValue:
    """What a value is before it is moved and widened, down to one that is ``found``."""
    while value not in found and (
        isinstance(op := value.owner, MovementOp)
        or (isinstance(op, tiny.CastOp) and is_widening(op.result))
    ):
        value = op.operands[0]
    return value


def _in_order(value: SSAValue) -> SSAValue:
    """What a value is before its elements change places, none of them repeated, and are widened."""
    while isinstance(op := value.owner, tiny.PermuteOp | tiny.ReshapeOp) or (
        isinstance(op, tiny.CastOp) and is_widening(op.result)
    ):
        value = op.operands[0]
    return value


def _is_place(value: SSAValue) -> bool:
    """Whether a value is of places along axes alone, moved and counted from somewhere else."""
    op = value.owner
    if isinstance(op, tiny.IotaOp | tiny.ConstantOp):
        return True
    if isinstance(op, tiny.BinaryOp):
        return op.function in ("add", "sub") and all(map(_is_place, op.operands))
    return isinstance(op, MovementOp | tiny.CastOp) and all(map(_is_place, op.operands))


def _looked_up(value: SSAValue) -> int:
    """The most elements of a gather that a value is made of and that is no read of rows in order;
    0 where there is none."""
    found = (
        _elements(op.result)
        for op in _behind([value])
        if isinstance(op, tiny.GatherOp) and not all(map(_is_place, op.operands[1:]))
    )
    return max(found, default=0)


def _is_given(value: SSAValue) -> bool:
    """Whether an output is a value, moved or not, which then is stored as the output alone says."""
    stack = [value]
    while stack:
        for use in stack.pop().uses:
            if isinstance(use.operation, tiny.OutputOp):
                return True
            if isinstance(use.operation, MovementOp):
                stack.append(use.operation.results[0])
    return False


def _own(value: SSAValue) -> Attribute | None:
    op = value.owner
    return op.properties.get("own") if isinstance(op, Operation) else None


def _held_in(value: SSAValue) -> Attribute | None:
    """A type narrower than f32 that every element of a value is a number of, where there is one."""
    found: Attribute | None = None
    stack, seen = [value], set[SSAValue]()
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        match one.owner:
            case tiny.CastOp() as op:
                kind = _element(op.operand)
                if kind not in (f16, bf16) or found not in (None, kind):
                    return None
                found = kind
            case tiny.PadOp() as op if op.number in (0.0, float("inf"), float("-inf")):
                stack.append(op.operand)
            case tiny.ReshapeOp() | tiny.PermuteOp() | tiny.SliceOp() | tiny.ExpandOp() as op:
                stack.append(op.operand)
            case tiny.BinaryOp() as op if op.function in ("max", "min"):
                stack += op.operands
            case tiny.SelectOp() as op:
                stack += [op.then, op.otherwise]
            case _:
                return None
    return found


def _behind(values: Iterable[SSAValue]) -> set[Operation]:
    """The ops that values are made by."""
    found: set[Operation] = set()
    stack = list(values)
    while stack:
        op = stack.pop().owner
        if isinstance(op, Operation) and op not in found:
            found.add(op)
            stack += op.operands
    return found


def _op_of(value: SSAValue, otherwise: Operation) -> Operation:
    return value.owner if isinstance(value.owner, Operation) else otherwise


def _names_around(op: Operation) -> set[str]:
    around = op.parent_block()
    ops = [] if around is None else list(around.ops)
    names = (one.properties.get("sym_name") for one in ops)
    return {name.data for name in names if isinstance(name, StringAttr)}


def _unlike(name: str, taken: set[str], number: int = 0) -> str:
    """A name that nothing has, ``made0`` being counted up."""
    stem = name.removesuffix("0") if name == "made0" else name
    found = f"{stem}{number}" if name == "made0" else stem
    while found in taken:
        number += 1
        found = f"{stem}{number}" if name == "made0" else f"{stem}_{number}"
    return found


@dataclass(frozen=True)
class TinySplitConstants(ModulePass):
    """What graphs compute of their parameters alone becomes graphs of their own, ``@<name>_made``.

    A graph reads the outputs of its second graph as inputs of the constant pool, whose ``made``
    says which each is.  What is done is reported.
    """

    name = "tiny-split-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = Report()
        rewrite(op, [SplitConstants(report)])
        show(report.fired)
