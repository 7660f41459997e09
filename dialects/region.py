"""``region``: one kernel as pure values whose types name their axes (S6).

A ``region.kernel`` reads tensors, computes values and yields what it writes.  There are
no buffers, no loops and no stages.  A value is a function of its axes; its type lists
them, so ``!region.val<[m: M, k: K], f32>`` depends on ``m`` and ``k`` and on nothing
else.  The body of a reduction is the graph of values that leads to its operand.

Two values with the same axis name speak of the same index, everywhere in one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AffineSetAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float32Type,
    FloatAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Dialect,
    Operation,
    Region,
    SSAValue,
)
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.dim import (
    AssumptionsAttr,
    Dim,
    Shape,
    parse_assumptions,
    shape_text,
)
from polyc.dialects.region_types import (
    AxisAttr,
    MemRefType,
    ValType,
    axes_text,
    check_axes,
    check_element,
    parse_axes,
    parse_scalar,
    scalar_text,
    val_type,
)
from polyc.dialects.signature import fix_name, sizes_equal, symbol_space
from polyc.dialects.tiny import BINARY_FUNCTIONS, COMPARISONS, UNARY_FUNCTIONS

UNARY_FNS = UNARY_FUNCTIONS
"""Functions of one value; ``docs/semantics.md`` says what each means."""

BINARY_FNS = BINARY_FUNCTIONS
"""Functions of two values of the same type, to that type."""

COMPARE_FNS = COMPARISONS
"""Relations of two values of the same type, to i1."""

REDUCE_FNS = ("sum", "max", "min")
"""Reductions; ``NEUTRAL`` holds what each gives over nothing."""

NEUTRAL: dict[str, float] = {"sum": 0.0, "max": -math.inf, "min": math.inf}

MATERIALIZE = ("gmem", "deferred")
"""Where an output goes: global memory, or straight to the kernel that reads it."""


# Small pieces of text ------------------------------------------------------------------


def _ints(values: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    return tuple(values.get_values())


def _set_type(op: IRDLOperation, result: Attribute) -> None:
    """Give a freshly parsed op the result type that its text says, for the verifier to judge."""
    Rewriter.replace_value_with_new_type(op.results[0], result)


def _parse_ints(parser: AttrParser) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(
        i64, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    )


def _print_types(
    printer: Printer, operands: Sequence[SSAValue], result: Attribute, short: bool = False
) -> None:
    """`` : T`` when ``short`` and all types are equal, else `` : T, … -> T``."""
    printer.print_string(" : ")
    if not short or any(o.type != result for o in operands):
        printer.print_list(operands, lambda o: printer.print_attribute(o.type))
        printer.print_string(" -> ")
    printer.print_attribute(result)


def _parse_types(
    parser: Parser, operands: Sequence[UnresolvedOperand], short: bool = False
) -> tuple[Sequence[SSAValue], Attribute]:
    """What ``_print_types`` prints, with the operands resolved."""
    parser.parse_punctuation(":")
    pos = parser.pos
    types: list[Attribute] = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_type
    )
    if parser.parse_optional_punctuation("->") is not None:
        result: Attribute = parser.parse_type()
    elif short and len(types) == 1:
        result = types[0]
        types = types * len(operands)
    else:
        parser.raise_error("expected -> and the result type")
    return parser.resolve_operands(operands, types, pos), result


def _parse_fn(parser: Parser, names: Sequence[str]) -> StringAttr:
    pos = parser.pos
    found = parser.parse_identifier(f", one of {', '.join(names)}")
    if found not in names:
        parser.raise_error(f"unknown function {found}; it is one of {', '.join(names)}", pos)
    return StringAttr(found)


def _float_type(parser: AttrParser) -> AnyFloat:
    pos = parser.pos
    found = parser.parse_type()
    if not isinstance(found, AnyFloat):
        parser.raise_error(f"expected a float type, got {found}", pos)
    return found


def _check_fn(op: Operation, fn: str, names: Sequence[str]) -> None:
    if fn not in names:
        raise VerifyException(f"{op.name}: unknown function {fn}; it is one of {', '.join(names)}")


# The kernel ----------------------------------------------------------------------------


def derived_symbols(shapes: Iterable[Shape]) -> tuple[str, ...]:
    """The symbols of a signature, in order of first appearance."""
    found: dict[str, None] = {}
    for shape in shapes:
        for dim in shape:
            found.update(dict.fromkeys(dim.symbols()))
    return tuple(found)


@irdl_op_definition
class KernelOp(IRDLOperation):
    """One kernel: inputs to read, axes to run over, values to write (S6.1).

    ``iters`` is the output space.  ``symbols`` are the size names of the whole kernel, in
    the order of the signature; every affine map in the body has exactly these symbols.
    ``materialize`` says for each output whether it goes to global memory (``gmem``) or
    straight to the kernel that reads it (``deferred``).  An input that another kernel of
    the module makes carries ``from = @kernel::@output`` in its dictionary.
    """

    name = "region.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    iters = prop_def(ArrayAttr[AxisAttr])
    outs = prop_def(ArrayAttr[MemRefType])
    materialize = prop_def(ArrayAttr[StringAttr])
    symbols = prop_def(ArrayAttr[StringAttr])
    assumptions = prop_def(AssumptionsAttr)
    arg_names = prop_def(ArrayAttr[StringAttr])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    res_names = prop_def(ArrayAttr[StringAttr])
    res_attrs = prop_def(ArrayAttr[DictionaryAttr])
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        sym_name: str,
        iters: Iterable[AxisAttr],
        ins: Sequence[MemRefType],
        outs: Sequence[MemRefType],
        arg_names: Sequence[str],
        res_names: Sequence[str],
        *,
        body: Region | None = None,
        symbols: Sequence[str] | None = None,
        assumptions: AssumptionsAttr | None = None,
        arg_attrs: Sequence[DictionaryAttr] | None = None,
        res_attrs: Sequence[DictionaryAttr] | None = None,
        materialize: Sequence[str] | None = None,
    ) -> None:
        if body is None:
            body = Region(Block(arg_types=ins))
        if symbols is None:
            symbols = derived_symbols(t.shape for t in [*ins, *outs])
        if arg_attrs is None:
            arg_attrs = [DictionaryAttr({}) for _ in ins]
        if res_attrs is None:
            res_attrs = [DictionaryAttr({}) for _ in outs]
        if materialize is None:
            materialize = ["gmem"] * len(outs)
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "iters": ArrayAttr(iters),
                "outs": ArrayAttr(outs),
                "materialize": ArrayAttr(StringAttr(m) for m in materialize),
                "symbols": ArrayAttr(StringAttr(s) for s in symbols),
                "assumptions": assumptions or AssumptionsAttr(()),
                "arg_names": ArrayAttr(StringAttr(n) for n in arg_names),
                "arg_attrs": ArrayAttr(arg_attrs),
                "res_names": ArrayAttr(StringAttr(n) for n in res_names),
                "res_attrs": ArrayAttr(res_attrs),
            },
            regions=[body],
        )
        for arg, name in zip(self.ins, arg_names, strict=False):
            if SSAValue.is_valid_name(name):
                arg.name_hint = name

    @property
    def ins(self) -> tuple[BlockArgument, ...]:
        """The tensors read, as the block's arguments."""
        return tuple(self.body.block.args)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        return tuple(s.data for s in self.symbols)

    @property
    def yield_op(self) -> YieldOp:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def reduction(self, name: str) -> ReduceOp | None:
        """The reduction called ``name``, or None."""
        for op in self.body.block.ops:
            if isinstance(op, ReduceOp) and op.label == name:
                return op
        return None

    # Text

    def _derived(self) -> tuple[str, ...]:
        types = [cast(MemRefType, a.type) for a in self.ins] + list(self.outs)
        return derived_symbols(t.shape for t in types)

    def print(self, printer: Printer) -> None:
        for arg, name in zip(self.ins, self.arg_names, strict=True):
            fix_name(printer, arg, name.data)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" iters {axes_text(self.iters)}\n    ins(")
        inputs = list(zip(self.ins, self.arg_attrs, strict=True))

        def print_in(item: tuple[BlockArgument, DictionaryAttr]) -> None:
            printer.print_block_argument(item[0])
            _print_dict(printer, item[1])

        def print_out(i: int) -> None:
            printer.print_string(f"{self.res_names.data[i].data}: ")
            printer.print_attribute(self.outs.data[i])
            printer.print_string(f" {self.materialize.data[i].data}")
            _print_dict(printer, self.res_attrs.data[i])

        printer.print_list(inputs, print_in)
        printer.print_string(")\n    outs(")
        printer.print_list(range(len(self.outs)), print_out)
        printer.print_string(")")
        if self.symbol_names != self._derived():
            printer.print_string(f"\n    symbols [{', '.join(self.symbol_names)}]")
        if self.assumptions.data:
            printer.print_string(f"\n    assuming {self.assumptions.text()}")
        if self.attributes:
            printer.print_string("\n    attributes ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("iters")
        iters = parse_axes(parser)
        arguments: list[Parser.Argument] = []
        arg_attrs: list[DictionaryAttr] = []
        outs: list[MemRefType] = []
        res_names: list[str] = []
        materialize: list[str] = []
        res_attrs: list[DictionaryAttr] = []

        def memref(found: Attribute, pos: int) -> MemRefType:
            if not isinstance(found, MemRefType):
                parser.raise_error(f"expected a !region.memref, got {found}", pos)
            return found

        def parse_in() -> None:
            pos = parser.pos
            argument = parser.parse_argument()
            memref(argument.type, pos)
            arguments.append(argument)
            arg_attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()))

        def parse_out() -> None:
            res_names.append(parser.parse_identifier(" as the output's name"))
            parser.parse_punctuation(":")
            pos = parser.pos
            outs.append(memref(parser.parse_type(), pos))
            materialize.append(_parse_fn(parser, MATERIALIZE).data)
            res_attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()))

        parser.parse_keyword("ins")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_in)
        parser.parse_keyword("outs")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_out)
        symbols: list[str] | None = None
        if parser.parse_optional_keyword("symbols") is not None:
            symbols = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_identifier
            )
        assumptions: AssumptionsAttr | None = None
        if parser.parse_optional_keyword("assuming") is not None:
            assumptions = AssumptionsAttr(parse_assumptions(parser))
        extra = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        op = cls(
            name,
            iters,
            [cast(MemRefType, a.type) for a in arguments],
            outs,
            [a.name.text[1:] for a in arguments],
            res_names,
            body=body,
            symbols=symbols,
            assumptions=assumptions,
            arg_attrs=arg_attrs,
            res_attrs=res_attrs,
            materialize=materialize,
        )
        if extra is not None:
            op.attributes |= extra.data
        return op

    # Rules

    def verify_(self) -> None:
        check_axes(self.iters)
        for what, count, lists in (
            ("inputs", len(self.ins), (self.arg_names, self.arg_attrs)),
            ("outputs", len(self.outs), (self.res_names, self.res_attrs, self.materialize)),
        ):
            for found in lists:
                if len(found) != count:
                    raise VerifyException(
                        f"the kernel has {count} {what} and a list of {len(found)} beside them; "
                        "give one entry each"
                    )
        names = [n.data for n in (*self.arg_names, *self.res_names)]
        for name in names:
            if names.count(name) > 1:
                raise VerifyException(
                    f"the name {name} is given to two tensors of the signature; rename one"
                )
        for found in self.materialize:
            if found.data not in MATERIALIZE:
                raise VerifyException(
                    f"an output is materialised in gmem or deferred, not in {found.data}"
                )
        for arg in self.ins:
            if not isinstance(arg.type, MemRefType):
                raise VerifyException(f"an input is a !region.memref, not {arg.type}")
        missing = [s for s in self._derived() if s not in self.symbol_names]
        if missing:
            raise VerifyException(
                f"the signature uses {', '.join(missing)}, which the kernel's symbols "
                f"[{', '.join(self.symbol_names)}] lack"
            )
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body ends with region.yield")
        self._verify_body()

    def _verify_body(self) -> None:
        sizes: dict[str, Dim] = {a.label: a.size for a in self.iters}
        reductions: set[str] = set()
        for op in self.body.block.ops:
            if isinstance(op, ReduceOp) and op.label is not None:
                if op.label in reductions:
                    raise VerifyException(
                        f'two reductions are named "{op.label}"; a plan names the one that '
                        "it means, give each its own name"
                    )
                reductions.add(op.label)
            for result in op.results:
                if not isinstance(result.type, ValType):
                    raise VerifyException(
                        f"{op.name} makes {result.type}; a kernel's values are !region.val"
                    )
                for axis in result.type.axes:
                    size = sizes.setdefault(axis.label, axis.size)
                    if not self.same_size(size, axis.size):
                        raise VerifyException(
                            f"AxisAlignmentMismatch: axis {axis.label} has size {size} in one "
                            f"place and {axis.size} in {op.name}; one name is one index, "
                            "rename one of the two"
                        )
                    for symbol in axis.size.symbols():
                        if symbol not in self.symbol_names:
                            raise VerifyException(
                                f"axis {axis} uses {symbol}, which is not one of the kernel's "
                                f"symbols [{', '.join(self.symbol_names)}]"
                            )

    def same_size(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes are equal wherever the kernel's assumptions hold (S2.3)."""
        return sizes_equal(a, b, self.symbol_names, self.assumptions.data)


def _print_dict(printer: Printer, data: DictionaryAttr) -> None:
    if data.data:
        printer.print_string(" ")
        printer.print_attr_dict(data.data)


def kernel_of(op: Operation) -> KernelOp | None:
    """The kernel around ``op``, or None."""
    parent = op.parent_op()
    return parent if isinstance(parent, KernelOp) else None


def _same_size(op: Operation, a: Dim, b: Dim) -> bool:
    if a == b:
        return True
    kernel = kernel_of(op)
    return kernel is not None and kernel.same_size(a, b)


def _same_axes(op: Operation, a: ValType, b: ValType) -> bool:
    return a.labels == b.labels and all(
        _same_size(op, x, y) for x, y in zip(a.shape, b.shape, strict=True)
    )


# Leaves --------------------------------------------------------------------------------


def _not_quasi_affine(expr: AffineExpr) -> str | None:
    """The first operator in ``expr`` that S4.2 does not allow."""
    if isinstance(expr, AffineBinaryOpExpr):
        if expr.kind is AffineBinaryOpKind.Mod:
            return "mod"
        if expr.kind is AffineBinaryOpKind.CeilDiv:
            return "ceildiv"
        return _not_quasi_affine(expr.lhs) or _not_quasi_affine(expr.rhs)
    return None


@irdl_op_definition
class ReadOp(IRDLOperation):
    """Element ``map(axes)`` of a tensor, for every point of the result's axes.

    ``map`` takes the result's axes in order and the kernel's symbols, and gives one
    coordinate a dimension of the tensor; it is affine with floordiv (S4.2).  With a guard,
    points outside ``guard`` give ``fill`` and are not read: the form of a pad or mask
    (S6.4).  Every other point lies inside the tensor, which isl proves (UnguardedAccess).
    """

    name = "region.read"

    tensor = operand_def(MemRefType)
    map = prop_def(AffineMapAttr)
    guard = opt_prop_def(AffineSetAttr)
    fill = opt_prop_def(FloatAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        tensor: SSAValue,
        map: AffineMap,
        axes: Iterable[AxisAttr],
        guard: AffineSet | None = None,
        fill: float | None = None,
    ) -> None:
        element = cast(MemRefType, tensor.type).element_type
        super().__init__(
            operands=[tensor],
            properties={
                "map": AffineMapAttr(map),
                "guard": None if guard is None else AffineSetAttr(guard),
                "fill": None if fill is None else FloatAttr(fill, cast(Float32Type, element)),
            },
            result_types=[ValType.of(axes, element)],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.tensor)
        printer.print_string(" ")
        printer.print_attribute(self.map)
        if self.guard is not None and self.fill is not None:
            printer.print_string(" where ")
            printer.print_attribute(self.guard)
            printer.print_string(f" else {scalar_text(self.fill.value.data, self.fill.type)}")
        printer.print_op_attributes(self.attributes)
        _print_types(printer, [self.tensor], self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReadOp:
        tensor = parser.parse_unresolved_operand()
        pos = parser.pos
        map = parser.parse_attribute()
        if not isinstance(map, AffineMapAttr):
            parser.raise_error(f"expected an affine_map, got {map}", pos)
        guard: AffineSet | None = None
        fill: float | None = None
        if parser.parse_optional_keyword("where") is not None:
            pos = parser.pos
            found = parser.parse_attribute()
            if not isinstance(found, AffineSetAttr):
                parser.raise_error(f"expected an affine_set, got {found}", pos)
            guard = found.data
            parser.parse_keyword("else")
            fill = parse_scalar(parser)
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        operands, result = _parse_types(parser, [tensor])
        if not isinstance(operands[0].type, MemRefType):
            parser.raise_error(f"expected a !region.memref, got {operands[0].type}", pos)
        if not isinstance(result, ValType):
            parser.raise_error(f"expected a !region.val, got {result}", pos)
        op = cls(operands[0], map.data, result.axes, guard, fill)
        _set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        memref = cast(MemRefType, self.tensor.type)
        result = val_type(self.result)
        map = self.map.data
        if result.element_type != memref.element_type:
            raise VerifyException(
                f"a read of {memref} gives {memref.element_type}, not {result.element_type}; "
                "convert with region.cast"
            )
        if len(map.results) != len(memref.shape):
            raise VerifyException(
                f"the map gives {len(map.results)} coordinates and the tensor has "
                f"{len(memref.shape)} dimensions {shape_text(memref.shape)}; give one each"
            )
        if map.num_dims != len(result.axes):
            raise VerifyException(
                f"the map takes {map.num_dims} axes and the value has {len(result.axes)}, "
                f"{axes_text(result.axes)}; give one dimension an axis"
            )
        for expr in map.results:
            if (operator := _not_quasi_affine(expr)) is not None:
                raise VerifyException(
                    f"MissingDivGuard: the map has {operator} in {expr}; write it with floordiv "
                    "(e mod q is e - q * (e floordiv q))"
                )
        if (self.guard is None) != (self.fill is None):
            raise VerifyException("a guard and its fill stand together; give both or none")
        kernel = kernel_of(self)
        if kernel is None:
            return
        symbols = kernel.symbol_names
        if map.num_symbols != len(symbols):
            raise VerifyException(
                f"the map has {map.num_symbols} symbols and the kernel {len(symbols)}, "
                f"[{', '.join(symbols)}]; align it to the kernel's"
            )
        guard = None if self.guard is None else self.guard.data
        if guard is not None and (guard.num_dims, guard.num_symbols) != (
            map.num_dims,
            map.num_symbols,
        ):
            raise VerifyException(
                f"the guard has {guard.num_dims} dimensions and {guard.num_symbols} symbols, the "
                f"map {map.num_dims} and {map.num_symbols}; give both the same"
            )
        self._verify_inside(kernel, memref, result, guard)

    def _verify_inside(
        self, kernel: KernelOp, memref: MemRefType, result: ValType, guard: AffineSet | None
    ) -> None:
        for position, (expr, extent) in enumerate(
            zip(self.map.data.results, memref.shape, strict=True)
        ):
            if isinstance(expr, AffineDimExpr) and result.shape[expr.position] == extent:
                continue
            if (fault := _outside(kernel, result, expr, extent, guard)) is not None:
                raise VerifyException(
                    f"UnguardedAccess: coordinate {position} of the read, {expr} over "
                    f"{axes_text(result.axes)}, {fault}; 0 to {extent} - 1 is inside: guard the "
                    "read (where affine_set<…> else fill) or change the map"
                )


def _outside(
    kernel: KernelOp, value: ValType, expr: AffineExpr, extent: Dim, guard: AffineSet | None
) -> str | None:
    """How coordinate ``expr`` may leave ``[0, extent)``; None when isl proves that it does not."""
    from polyc.poly.isl import IslLimitExceeded, sample_point

    symbols = kernel.symbol_names
    known = [] if guard is None else list(guard.constraints)
    known += symbol_space(symbols, kernel.assumptions.data).constraints
    for i, size in enumerate(value.shape):
        known.append(_at_least(AffineExpr.dimension(i), 0))
        # A size that multiplies symbols is beyond isl: its axis then has no upper bound here.
        if (bound := size.as_affine(symbols)) is not None:
            known.append(_at_least(bound - AffineExpr.dimension(i), 1))
    limit = extent.as_affine(symbols)
    if limit is None:
        return f"is {expr}, which isl cannot compare with {extent}, a product of symbols"
    for bad in (_at_least(-expr, 1), _at_least(expr - limit, 0)):
        points = AffineSet(len(value.axes), len(symbols), (*known, bad))
        try:
            sample = sample_point(points)
        except IslLimitExceeded as error:
            return f"is {expr}, of which {error}"
        if sample is not None:
            at, where = sample
            coordinate = expr.eval(list(at), list(where))
            axes = ", ".join(f"{n} = {v}" for n, v in zip(value.labels, at, strict=True))
            sizes = ", ".join(f"{n} = {v}" for n, v in zip(symbols, where, strict=True))
            return f"is {coordinate} at [{axes}] when {sizes or 'run'}, outside the tensor"
    return None


def _at_least(expr: AffineExpr, bound: int) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.ge, expr, AffineConstantExpr(bound))


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A number, as a value with no axes."""

    name = "region.constant"

    value = prop_def(FloatAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, value: float, element_type: AnyFloat) -> None:
        super().__init__(
            properties={"value": FloatAttr(value, element_type)},
            result_types=[ValType.of((), element_type)],
        )

    @property
    def number(self) -> float:
        return self.value.value.data

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {scalar_text(self.number, self.value.type)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        number = parse_scalar(parser)
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pos = parser.pos
        result = parser.parse_type()
        if not isinstance(result, ValType) or not isinstance(result.element_type, AnyFloat):
            parser.raise_error(f"expected a !region.val of floats, got {result}", pos)
        op = cls(number, result.element_type)
        _set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        result = val_type(self.result)
        if len(result.axes):
            raise VerifyException(
                f"a constant has no axes, and its type has {axes_text(result.axes)}; broadcast it"
            )
        if result.element_type != self.value.type:
            raise VerifyException(f"a constant of {self.value.type} cannot have the type {result}")


# Elementwise ---------------------------------------------------------------------------


@irdl_op_definition
class UnaryOp(IRDLOperation):
    """``fn`` of each element; operand and result have the same type."""

    name = "region.unary"

    fn = prop_def(StringAttr)
    operand = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, fn: str, operand: SSAValue) -> None:
        super().__init__(
            operands=[operand], properties={"fn": StringAttr(fn)}, result_types=[operand.type]
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, self.fn.data)

    @classmethod
    def parse(cls, parser: Parser) -> UnaryOp:
        fn = _parse_fn(parser, UNARY_FNS).data
        return _parse_elementwise(parser, 1, lambda ops: cls(fn, ops[0]))

    def verify_(self) -> None:
        _check_fn(self, self.fn.data, UNARY_FNS)
        _check_equal_types(self, self.operands, self.result.type)


@irdl_op_definition
class BinaryOp(IRDLOperation):
    """``fn`` of the elements at the same point; operands and result have the same type.

    Nothing broadcasts by itself: axes are made equal before, by
    ``region.broadcast_in_dim`` and ``region.transpose`` (S6.3).
    """

    name = "region.binary"

    fn = prop_def(StringAttr)
    lhs = operand_def(ValType)
    rhs = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(
            operands=[lhs, rhs], properties={"fn": StringAttr(fn)}, result_types=[lhs.type]
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, self.fn.data)

    @classmethod
    def parse(cls, parser: Parser) -> BinaryOp:
        fn = _parse_fn(parser, BINARY_FNS).data
        return _parse_elementwise(parser, 2, lambda ops: cls(fn, ops[0], ops[1]))

    def verify_(self) -> None:
        _check_fn(self, self.fn.data, BINARY_FNS)
        _check_equal_types(self, self.operands, self.result.type)


@irdl_op_definition
class CompareOp(IRDLOperation):
    """Whether a relation holds between the elements at the same point, as i1.

    With a NaN every relation but ``ne`` is false.
    """

    name = "region.compare"

    fn = prop_def(StringAttr)
    lhs = operand_def(ValType)
    rhs = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(
            operands=[lhs, rhs],
            properties={"fn": StringAttr(fn)},
            result_types=[cast(ValType, lhs.type).with_element(IntegerType(1))],
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, self.fn.data)

    @classmethod
    def parse(cls, parser: Parser) -> CompareOp:
        fn = _parse_fn(parser, COMPARE_FNS).data
        return _parse_elementwise(parser, 2, lambda ops: cls(fn, ops[0], ops[1]))

    def verify_(self) -> None:
        _check_fn(self, self.fn.data, COMPARE_FNS)
        expected = val_type(self.lhs).with_element(IntegerType(1))
        _check_equal_types(self, self.operands, self.result.type, expected)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``if_true`` where ``condition`` (i1) holds, else ``if_false``.

    The value that is not chosen has no effect on the result, not even as NaN.
    """

    name = "region.select"

    condition = operand_def(ValType)
    if_true = operand_def(ValType)
    if_false = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> None:
        super().__init__(operands=[condition, if_true, if_false], result_types=[if_true.type])

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        return _parse_elementwise(parser, 3, lambda ops: cls(ops[0], ops[1], ops[2]))

    def verify_(self) -> None:
        condition = val_type(self.condition)
        if condition.element_type != IntegerType(1):
            raise VerifyException(
                f"the condition of a select is i1, not {condition.element_type}; compare first"
            )
        _check_equal_types(self, self.operands[1:], self.result.type)
        _check_equal_axes(self, condition, val_type(self.result))


@irdl_op_definition
class CastOp(IRDLOperation):
    """Each element in another element type, rounded to nearest even."""

    name = "region.cast"

    operand = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, element_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[cast(ValType, operand.type).with_element(element_type)],
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, short=False)

    @classmethod
    def parse(cls, parser: Parser) -> CastOp:
        return _parse_elementwise(parser, 1, lambda ops: cls(ops[0], Float32Type()), short=False)

    def verify_(self) -> None:
        _check_equal_axes(self, val_type(self.operand), val_type(self.result))


_OpT = TypeVar("_OpT", bound=IRDLOperation)


def _print_elementwise(
    op: IRDLOperation, printer: Printer, fn: str | None = None, short: bool = True
) -> None:
    printer.print_string(" " if fn is None else f" {fn} ")
    printer.print_list(op.operands, printer.print_operand)
    printer.print_op_attributes(op.attributes)
    _print_types(printer, op.operands, op.results[0].type, short)


def _parse_elementwise(
    parser: Parser,
    count: int,
    build: Callable[[Sequence[SSAValue]], _OpT],
    short: bool = True,
) -> _OpT:
    pos = parser.pos
    unresolved = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    if len(unresolved) != count:
        parser.raise_error(f"expected {count} operands, got {len(unresolved)}", pos)
    extra = parser.parse_optional_attr_dict()
    pos = parser.pos
    operands, result = _parse_types(parser, unresolved, short)
    for found in (*(o.type for o in operands), result):
        if not isinstance(found, ValType):
            parser.raise_error(f"expected a !region.val, got {found}", pos)
    op = build(operands)
    _set_type(op, result)
    op.attributes |= extra
    return op


def _check_equal_types(
    op: Operation,
    operands: Sequence[SSAValue],
    result: Attribute,
    expected: ValType | None = None,
) -> None:
    """Operands agree in axes (BroadcastMismatch) and element type; the result follows.

    ``expected`` is the result's type where it is not the operands'.
    """
    types = [val_type(o) for o in operands]
    for other in types[1:]:
        _check_equal_axes(op, types[0], other)
        if other.element_type != types[0].element_type:
            raise VerifyException(
                f"{op.name} has operands of {types[0].element_type} and {other.element_type}; "
                "convert one with region.cast"
            )
    expected = expected or types[0]
    if result != expected:
        raise VerifyException(f"{op.name} of {types[0]} gives {expected}, not {result}")


def _check_equal_axes(op: Operation, a: ValType, b: ValType) -> None:
    if not _same_axes(op, a, b):
        raise VerifyException(
            f"BroadcastMismatch: {op.name} has the unlike types {a} and {b}; make their axes "
            "equal with region.broadcast_in_dim or region.transpose"
        )


# Axes ----------------------------------------------------------------------------------


@irdl_op_definition
class BroadcastInDimOp(IRDLOperation):
    """The operand repeated along new axes; nothing is stored (S6.3).

    ``dims[i]`` is the position in the result of the operand's axis ``i``; that axis keeps
    its name and size.  Axes of the result that no entry names are new.  The entries need
    not rise: ``b[n, k]`` in ``[m, k, n]`` has dims ``[2, 1]``.
    """

    name = "region.broadcast_in_dim"

    operand = operand_def(ValType)
    dims = prop_def(DenseArrayBase.constr(i64))
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, dims: Sequence[int], axes: Iterable[AxisAttr]) -> None:
        super().__init__(
            operands=[operand],
            properties={"dims": DenseArrayBase.from_list(i64, list(dims))},
            result_types=[ValType.of(axes, cast(ValType, operand.type).element_type)],
        )

    @property
    def positions(self) -> tuple[int, ...]:
        """For each operand axis, its position in the result."""
        return _ints(self.dims)

    def print(self, printer: Printer) -> None:
        _print_axes_op(self, printer, "dims", self.positions)

    @classmethod
    def parse(cls, parser: Parser) -> BroadcastInDimOp:
        return _parse_axes_op(parser, "dims", lambda o, ints, axes: cls(o, ints, axes))

    def verify_(self) -> None:
        operand, result = val_type(self.operand), val_type(self.result)
        positions = self.positions
        if len(positions) != len(operand.axes):
            raise VerifyException(
                f"dims {list(positions)} has {len(positions)} entries and the operand "
                f"{len(operand.axes)} axes {axes_text(operand.axes)}; give one each"
            )
        if len(set(positions)) != len(positions) or any(
            not 0 <= p < len(result.axes) for p in positions
        ):
            raise VerifyException(
                f"dims {list(positions)} is not a choice of distinct positions of "
                f"{axes_text(result.axes)}"
            )
        _check_element_kept(self, operand, result)
        for axis, position in zip(operand.axes, positions, strict=True):
            _check_aligned(self, axis, result.axes.data[position])


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The operand with its axes in another order; nothing is moved (S6.3).

    Axis ``i`` of the result is axis ``perm[i]`` of the operand.
    """

    name = "region.transpose"

    operand = operand_def(ValType)
    perm = prop_def(DenseArrayBase.constr(i64))
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, perm: Sequence[int]) -> None:
        source = cast(ValType, operand.type)
        axes = source.axes.data
        kept = [axes[p] for p in perm if 0 <= p < len(axes)]
        super().__init__(
            operands=[operand],
            properties={"perm": DenseArrayBase.from_list(i64, list(perm))},
            result_types=[ValType.of(dict.fromkeys(kept), source.element_type)],
        )

    @property
    def permutation(self) -> tuple[int, ...]:
        """For each result axis, its position in the operand."""
        return _ints(self.perm)

    def print(self, printer: Printer) -> None:
        _print_axes_op(self, printer, "perm", self.permutation)

    @classmethod
    def parse(cls, parser: Parser) -> TransposeOp:
        return _parse_axes_op(parser, "perm", lambda o, ints, _: cls(o, ints))

    def verify_(self) -> None:
        operand, result = val_type(self.operand), val_type(self.result)
        perm = self.permutation
        if sorted(perm) != list(range(len(operand.axes))) or len(result.axes) != len(perm):
            raise VerifyException(
                f"perm {list(perm)} is not a permutation of the axes {axes_text(operand.axes)}"
            )
        _check_element_kept(self, operand, result)
        for axis, position in zip(result.axes, perm, strict=True):
            _check_aligned(self, operand.axes.data[position], axis)


def _check_element_kept(op: Operation, operand: ValType, result: ValType) -> None:
    if operand.element_type != result.element_type:
        raise VerifyException(
            f"{op.name} keeps the element type {operand.element_type}, and its result has "
            f"{result.element_type}; convert with region.cast"
        )


def _check_aligned(op: Operation, source: AxisAttr, target: AxisAttr) -> None:
    if source.label != target.label or not _same_size(op, source.size, target.size):
        raise VerifyException(
            f"AxisAlignmentMismatch: {op.name} puts the operand's axis {source} on the result's "
            f"axis {target}; name and size stay the same"
        )


def _print_axes_op(op: IRDLOperation, printer: Printer, word: str, ints: Sequence[int]) -> None:
    printer.print_string(" ")
    printer.print_operand(op.operands[0])
    printer.print_string(f" {word} {list(ints)}")
    printer.print_op_attributes(op.attributes)
    _print_types(printer, op.operands, op.results[0].type)


def _parse_axes_op(
    parser: Parser,
    word: str,
    build: Callable[[SSAValue, tuple[int, ...], ArrayAttr[AxisAttr]], _OpT],
) -> _OpT:
    unresolved = parser.parse_unresolved_operand()
    parser.parse_keyword(word)
    ints = _ints(_parse_ints(parser))
    extra = parser.parse_optional_attr_dict()
    pos = parser.pos
    operands, result = _parse_types(parser, [unresolved])
    for found in (operands[0].type, result):
        if not isinstance(found, ValType):
            parser.raise_error(f"expected a !region.val, got {found}", pos)
    op = build(operands[0], ints, cast(ValType, result).axes)
    _set_type(op, result)
    op.attributes |= extra
    return op


# Reduction -----------------------------------------------------------------------------


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """``fn`` over some axes of the operand, which the result lacks.

    ``init`` is the neutral value of ``fn`` (sum 0, max -inf, min +inf) and what a
    reduction over nothing gives.  ``acc`` is the type in which it accumulates, and the
    result's element type; without it that is the operand's.  ``name`` is how a plan
    speaks of the reduction (S6.7).
    """

    name = "region.reduce"

    fn = prop_def(StringAttr)
    operand = operand_def(ValType)
    axes = prop_def(ArrayAttr[StringAttr])
    init = prop_def(FloatAttr)
    acc = opt_prop_def(Attribute)
    label_attr = opt_prop_def(StringAttr, prop_name="label")
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[str],
        *,
        init: float | None = None,
        acc: AnyFloat | None = None,
        label: str | None = None,
    ) -> None:
        source = cast(ValType, operand.type)
        element = acc or cast(AnyFloat, source.element_type)
        start = NEUTRAL[fn] if init is None else init
        super().__init__(
            operands=[operand],
            properties={
                "fn": StringAttr(fn),
                "axes": ArrayAttr(StringAttr(a) for a in axes),
                "init": FloatAttr(start, element),
                "acc": acc,
                "label": None if label is None else StringAttr(label),
            },
            result_types=[ValType.of((a for a in source.axes if a.label not in axes), element)],
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the reduced axes."""
        return tuple(a.data for a in self.axes)

    @property
    def accumulator(self) -> Attribute:
        """The element type in which it accumulates."""
        return self.result.type.element_type

    @property
    def label(self) -> str | None:
        """The reduction's own name."""
        return None if self.label_attr is None else self.label_attr.data

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.fn.data} ")
        printer.print_operand(self.operand)
        init = scalar_text(self.init.value.data, self.init.type)
        printer.print_string(f" over [{', '.join(self.labels)}] init {init}")
        if self.acc is not None:
            printer.print_string(" acc ")
            printer.print_attribute(self.acc)
        if self.label is not None:
            printer.print_string(" name ")
            printer.print_string_literal(self.label)
        printer.print_op_attributes(self.attributes)
        _print_types(printer, [self.operand], self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        fn = _parse_fn(parser, REDUCE_FNS).data
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("over")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
        parser.parse_keyword("init")
        init = parse_scalar(parser)
        acc = _float_type(parser) if parser.parse_optional_keyword("acc") is not None else None
        label: str | None = None
        if parser.parse_optional_keyword("name") is not None:
            label = parser.parse_str_literal()
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        operands, result = _parse_types(parser, [unresolved])
        source = operands[0].type
        if not isinstance(source, ValType) or not isinstance(source.element_type, AnyFloat):
            parser.raise_error(f"expected a !region.val of floats, got {source}", pos)
        op = cls(fn, operands[0], axes, init=init, acc=acc, label=label)
        _set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        _check_fn(self, self.fn.data, REDUCE_FNS)
        operand, result = val_type(self.operand), val_type(self.result)
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise VerifyException(
                f"a reduction is over one or more distinct axes, not over "
                f"[{', '.join(self.labels)}]"
            )
        for label in self.labels:
            if operand.axis(label) is None:
                raise VerifyException(
                    f"the reduction is over {label}, and its operand has the axes "
                    f"{axes_text(operand.axes)}; name axes of the operand"
                )
        self._verify_accumulator(operand)
        element = operand.element_type if self.acc is None else self.acc
        expected = ValType.of((a for a in operand.axes if a.label not in self.labels), element)
        if result != expected:
            raise VerifyException(f"the reduction gives {expected}, not {result}")

    def _verify_accumulator(self, operand: ValType) -> None:
        if not isinstance(operand.element_type, AnyFloat):
            raise VerifyException(f"a reduction of {operand.element_type} is not there")
        if self.acc is not None:
            check_element(self.acc)
        fn = self.fn.data
        if fn == "sum" and self.acc is None and not isinstance(operand.element_type, Float32Type):
            raise VerifyException(
                f"AccDtypeMissing: a sum of {operand.element_type} does not say what it "
                "accumulates in; write acc f32"
            )
        neutral, init = NEUTRAL[fn], self.init.value.data
        if init != neutral or math.copysign(1.0, init) != math.copysign(1.0, neutral):
            raise VerifyException(
                f"NeutralInvalid: init of a {fn} is {neutral}, what it gives over nothing, not "
                f"{scalar_text(init, self.init.type)}; a finite number in its place changes the "
                "result"
            )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values that the kernel writes, in the order of ``outs``."""

    name = "region.yield"

    values = var_operand_def(ValType)

    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[values])

    def print(self, printer: Printer) -> None:
        if self.values:
            printer.print_string(" ")
            printer.print_list(self.values, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        if self.values:
            printer.print_string(" : ")
            printer.print_list(self.values, lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        unresolved = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        extra = parser.parse_optional_attr_dict()
        values: Sequence[SSAValue] = []
        if unresolved:
            parser.parse_punctuation(":")
            pos = parser.pos
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            values = parser.resolve_operands(unresolved, types, pos)
        op = cls(values)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        kernel = kernel_of(self)
        if kernel is None:
            return
        if len(self.values) != len(kernel.outs):
            raise VerifyException(
                f"{len(self.values)} values are yielded to {len(kernel.outs)} outputs; yield one "
                "each"
            )
        iters = {a.label for a in kernel.iters}
        for value, out, name in zip(self.values, kernel.outs, kernel.res_names, strict=True):
            found = val_type(value)
            for label in found.labels:
                if label not in iters:
                    raise VerifyException(
                        f"output {name.data} depends on axis {label}, which is not one of the "
                        f"kernel's iters {axes_text(kernel.iters)}; reduce it or add it"
                    )
            if len(found.shape) != len(out.shape) or not all(
                _same_size(self, a, b) for a, b in zip(found.shape, out.shape, strict=True)
            ):
                raise VerifyException(
                    f"output {name.data} has shape {shape_text(out.shape)} and is given "
                    f"{axes_text(found.axes)}; make the sizes equal"
                )
            if found.element_type != out.element_type:
                raise VerifyException(
                    f"output {name.data} holds {out.element_type} and is given "
                    f"{found.element_type}; convert with region.cast"
                )


RegionDialect = Dialect(
    "region",
    [
        KernelOp,
        ReadOp,
        ConstantOp,
        UnaryOp,
        BinaryOp,
        CompareOp,
        SelectOp,
        CastOp,
        BroadcastInDimOp,
        TransposeOp,
        ReduceOp,
        YieldOp,
    ],
    [AxisAttr, ValType, MemRefType],
)
