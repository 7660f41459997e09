"""Graph signatures: the ABI of a program, shared by the containers of every layer (S2.1).

A signature names the inputs and outputs, their types, roles and promises, the symbols
in the order in which they first appear, and the assumptions on them.  ``frontend.graph``
and ``tiny.graph`` are ``SignatureOp``s; lower containers carry the same properties.

The text is::

    @name(%A: type {role = "param"}, …) -> (C: type, …) assuming (K mod 8 == 0) { … }

Sizes, shapes and types inside a graph are compared here too, under its assumptions (S2.3).
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import (
    Assumption,
    AssumptionsAttr,
    Dim,
    Shape,
    parse_assumptions,
    unknown_symbol,
)
from polyc.dialects.common.sized_tensor import (
    SizedTensorType,
    sizes_equal,
    symbol_space,
    tensor_symbols,
)

__all__ = [
    "MUTABILITIES",
    "ROLES",
    "STORAGES",
    "SignatureOp",
    "SizedTensorType",
    "TensorSpec",
    "default_output_names",
    "entry_fault",
    "fix_name",
    "graph_of",
    "same_shape",
    "same_size",
    "same_type",
    "sizes_equal",
    "symbol_space",
    "tensor_symbols",
    "verify_outputs",
    "verify_symbols",
]

# Sizes ---------------------------------------------------------------------------------


def same_size(a: Dim, b: Dim, at: Operation) -> bool:
    """``sizes_equal`` under the symbols and assumptions of the graph around ``at``."""
    graph = graph_of(at)
    if graph is None:
        return sizes_equal(a, b, ())
    return sizes_equal(a, b, graph.symbol_names, graph.facts)


def same_shape(a: Shape, b: Shape, at: Operation) -> bool:
    """Whether two shapes have one rank and equal sizes."""
    return len(a) == len(b) and all(same_size(x, y, at) for x, y in zip(a, b, strict=True))


def same_type(a: Attribute, b: Attribute, at: Operation) -> bool:
    """Whether two tensor types have one class, one element type and equal shapes."""
    if a == b:
        return True
    return (
        isinstance(a, SizedTensorType)
        and isinstance(b, SizedTensorType)
        and a.name == b.name
        and a.element_type == b.element_type
        and same_shape(a.dims, b.dims, at)
    )


def graph_of(op: Operation) -> SignatureOp | None:
    """The nearest ``SignatureOp`` around ``op``."""
    around = op.parent_op()
    while around is not None and not isinstance(around, SignatureOp):
        around = around.parent_op()
    return around


def verify_symbols(op: Operation) -> None:
    """Check that the results of ``op`` use symbols of the signature only (S4.8)."""
    graph = graph_of(op)
    if graph is None:
        return
    known = graph.symbol_names
    for name in tensor_symbols(r.type for r in op.results):
        if name not in known:
            raise VerifyException(
                f"symbol {name} of the result is not in the signature of "
                f"@{graph.sym_name.data}, whose symbols are {_listed(known)}; "
                "use one of these or add an input that has it"
            )


def verify_outputs(op: Operation, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` have the types of the outputs of the graph around ``op``."""
    graph = op.parent_op()
    if not isinstance(graph, SignatureOp):
        return
    outputs = graph.function_type.outputs.data
    if len(values) != len(outputs):
        raise VerifyException(
            f"@{graph.sym_name.data} has {len(outputs)} outputs, and {len(values)} are given"
        )
    for name, value, expected in zip(graph.res_names, values, outputs, strict=True):
        if not same_type(value.type, expected, op):
            raise VerifyException(
                f"output {name.data} of @{graph.sym_name.data} is {expected} in the "
                f"signature; the value is {value.type}"
            )


@lru_cache(1024)
def _hold_nowhere(symbols: tuple[str, ...], facts: tuple[Assumption, ...]) -> bool:
    """Whether no sizes satisfy the assumptions, which then would prove anything."""
    from polyc.affine.isl import is_empty

    return is_empty(symbol_space(symbols, facts))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


# Signatures ----------------------------------------------------------------------------

ROLES = ("data", "param")
MUTABILITIES = ("immutable", "mutable")
STORAGES = ("const_pool",)
_KEYS = ("role", "mutability", "storage", "entry", "made", "align", "noalias")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a signature with its promises, defaults filled in (S2.1).

    ``align`` is the promised alignment of the pointer in bytes; None promises nothing
    beyond the element's own size.  ``noalias`` says that no output overlaps it.  ``entry`` is the
    name that a parameter file has for what the constant pool keeps, and ``made`` the graph and the
    output that make it of such entries (S12.2).
    """

    name: str
    type: SizedTensorType
    role: str = "data"
    mutability: str = "immutable"
    storage: str | None = None
    align: int | None = None
    noalias: bool = True
    entry: str | None = None
    made: str | None = None

    @property
    def pooled(self) -> str | None:
        """What a parameter file calls it: its entry, or else its own name; None for others."""
        return None if self.storage is None or self.made else self.entry or self.name

    @staticmethod
    def of(name: str, type: Attribute, attrs: DictionaryAttr) -> TensorSpec:
        """From a name, a tensor type and the dictionary of ``arg_attrs``/``res_attrs``."""
        data = attrs.data
        text = {k: v.data for k, v in data.items() if isinstance(v, StringAttr)}
        align, noalias = data.get("align"), data.get("noalias")
        return TensorSpec(
            name,
            cast(SizedTensorType, type),
            text.get("role", "data"),
            text.get("mutability", "immutable"),
            text.get("storage"),
            cast("IntegerAttr", align).value.data if align is not None else None,
            _truth(noalias) if noalias is not None else True,
            text.get("entry"),
            text.get("made"),
        )


def _truth(attr: Attribute) -> bool:
    return isinstance(attr, UnitAttr) or bool(cast("IntegerAttr", attr).value.data)


def _attr_fault(attrs: Mapping[str, Attribute]) -> str | None:
    """What is wrong with an input's or output's dictionary, or None."""
    for key, value in attrs.items():
        choices = {"role": ROLES, "mutability": MUTABILITIES, "storage": STORAGES}.get(key)
        if choices is not None:
            if not isinstance(value, StringAttr) or value.data not in choices:
                known = " or ".join(f'"{c}"' for c in choices)
                return f"{key} is {known}, not {value}"
        elif key == "align":
            if not isinstance(value, IntegerAttr) or not _power_of_two(value.value.data):
                return f"align is a power of two in bytes, such as 16, not {value}"
        elif key == "noalias":
            boolean = isinstance(value, IntegerAttr) and cast("IntegerAttr", value).type == i1
            if not boolean and not isinstance(value, UnitAttr):
                return f"noalias is true or false, not {value}"
        elif key in ("entry", "made"):
            if key == "entry" and (fault := entry_fault(value)) is not None:
                return fault
            if key == "made" and not _is_of_graph(value):
                return f'made is an output of a graph, such as "f_made.made0", not {value}'
            if "storage" not in attrs:
                return (
                    f"{key} {value} is kept in the constant pool, and the tensor is not; add "
                    'storage = "const_pool"'
                )
            if "entry" in attrs and "made" in attrs:
                return "a tensor is an entry of a parameter file, or made of some, not both"
        else:
            return f"{key} says nothing about a tensor; there are {', '.join(_KEYS)}"
    return None


def entry_fault(value: Attribute) -> str | None:
    """What is wrong with the name of an entry of a parameter file, or None."""
    if isinstance(value, StringAttr) and value.data:
        return None
    return f"an entry of a parameter file has a name, a text that is not empty, not {value}"


def _is_of_graph(value: Attribute) -> bool:
    return isinstance(value, StringAttr) and re.fullmatch(r"[^.]+\.\w+", value.data) is not None


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def default_output_names(count: int, taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Names for outputs that the text gives none: ``C``, or ``out0, out1, …``.

    A name among ``taken`` is passed over.
    """
    used = set(taken)
    if count == 1 and "C" not in used:
        return ("C",)
    names: list[str] = []
    number = 0
    while len(names) < count:
        if (name := f"out{number}") not in used:
            names.append(name)
        number += 1
    return tuple(names)


class SignatureOp(IRDLOperation, ABC):
    """A graph with its signature; the body is one block of pure ops and an output (S2.1).

    ``arg_names``, ``res_names``, ``arg_attrs`` and ``res_attrs`` have one entry an input
    or output, ``symbols`` is in order of first appearance in the types.
    """

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    arg_names = prop_def(ArrayAttr[StringAttr])
    res_names = prop_def(ArrayAttr[StringAttr])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = prop_def(ArrayAttr[DictionaryAttr])
    symbols = prop_def(ArrayAttr[StringAttr])
    assumptions = prop_def(AssumptionsAttr)

    body = region_def("single_block")

    TENSOR: ClassVar[type[SizedTensorType]]
    """The tensor type of the dialect's values."""

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        inputs: Sequence[Attribute],
        outputs: Sequence[Attribute],
        body: Region | None = None,
        *,
        arg_names: Sequence[str] | None = None,
        res_names: Sequence[str] | None = None,
        arg_attrs: Sequence[Mapping[str, Attribute]] | None = None,
        res_attrs: Sequence[Mapping[str, Attribute]] | None = None,
        assumptions: Sequence[Assumption] = (),
        location: LocationAttr | None = None,
    ) -> None:
        """A graph from its types; without ``body`` an empty block with the arguments."""
        if arg_names is None:
            arg_names = [f"arg{i}" for i in range(len(inputs))]
        if res_names is None:
            res_names = default_output_names(len(outputs), arg_names)
        if body is None:
            body = Region(Block(arg_types=inputs))
            for arg, hint in zip(body.block.args, arg_names, strict=False):
                if SSAValue.is_valid_name(hint):
                    arg.name_hint = hint
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(inputs, outputs),
                "arg_names": _strings(arg_names),
                "res_names": _strings(res_names),
                "arg_attrs": _dictionaries(arg_attrs, len(inputs)),
                "res_attrs": _dictionaries(res_attrs, len(outputs)),
                "symbols": _strings(tensor_symbols((*inputs, *outputs))),
                "assumptions": AssumptionsAttr(tuple(assumptions)),
            },
            regions=[body],
        )
        if location is not None:
            self.location = location

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, in order of first appearance in the signature."""
        return tuple(s.data for s in self.symbols)

    @property
    def facts(self) -> tuple[Assumption, ...]:
        """The assumptions on the symbols."""
        return self.assumptions.data

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs with their promises."""
        return tuple(
            TensorSpec.of(n.data, t, a)
            for n, t, a in zip(
                self.arg_names, self.function_type.inputs, self.arg_attrs, strict=True
            )
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs with their promises."""
        return tuple(
            TensorSpec.of(n.data, t, a)
            for n, t, a in zip(
                self.res_names, self.function_type.outputs, self.res_attrs, strict=True
            )
        )

    def verify_(self) -> None:
        name = self.sym_name.data
        inputs, outputs = self.function_type.inputs.data, self.function_type.outputs.data
        for what, count, lists in (
            ("input", len(inputs), (self.arg_names, self.arg_attrs)),
            ("output", len(outputs), (self.res_names, self.res_attrs)),
        ):
            for entries in lists:
                if len(entries) != count:
                    raise VerifyException(
                        f"@{name} has {count} {what}s and {len(entries)} entries for them; "
                        "names and attributes have one each"
                    )
        if not outputs:
            raise VerifyException(f"@{name} has no output; a graph computes at least one")
        if tuple(self.body.block.arg_types) != inputs:
            raise VerifyException(
                f"the block of @{name} takes {_types(self.body.block.arg_types)}, "
                f"its signature {_types(inputs)}"
            )
        names = [n.data for n in (*self.arg_names, *self.res_names)]
        for tensor, t in zip(names, (*inputs, *outputs), strict=True):
            if (fault := self._type_fault(t)) is not None:
                raise VerifyException(f"{tensor} of @{name}: {fault}")
        for i, tensor in enumerate(names):
            if tensor in names[:i]:
                what = "output" if i >= len(inputs) else "input"
                raise VerifyException(
                    f"{what} name {tensor} of @{name} is taken; inputs and outputs have "
                    "different names"
                )
        for tensor, attrs in zip(names, (*self.arg_attrs, *self.res_attrs), strict=True):
            if (fault := _attr_fault(attrs.data)) is not None:
                raise VerifyException(f"{tensor} of @{name}: {fault}")
        self._verify_entries()
        expected = tensor_symbols((*inputs, *outputs))
        for word in (*names, *expected):
            if _WORD.fullmatch(word) is None:
                raise VerifyException(
                    f"{word} of @{name} is not a name; tensors and symbols are named with "
                    "letters, digits and _, and do not begin with a digit"
                )
        if self.symbol_names != expected:
            raise VerifyException(
                f"@{name} lists the symbols {_listed(self.symbol_names)}; its types have "
                f"{_listed(expected)}, in this order"
            )
        for fact in self.facts:
            if (fault := unknown_symbol(fact, expected)) is not None:
                raise VerifyException(f"{fault} of @{name}")
        if self.facts and _hold_nowhere(self.symbol_names, self.facts):
            stated = ", ".join(str(fact) for fact in self.facts)
            raise VerifyException(
                f"the assumptions of @{name} hold at no sizes: {stated}; take one of them back"
            )
        self._verify_body()

    def _verify_body(self) -> None:
        """What stands in the body is an op whose results are tensors, and no graph.

        Raises PolycError at the op's place.
        """
        for op in self.body.block.ops:
            if isinstance(op, SignatureOp):
                raise PolycError(
                    "InvalidIR",
                    f"@{op.sym_name.data} stands inside of @{self.sym_name.data}; a graph holds no "
                    "graph: put it beside",
                    op,
                )
            for result in op.results:
                if not isinstance(result.type, SizedTensorType):
                    raise PolycError(
                        "InvalidIR",
                        f"{op.name} gives {result.type}, and the values of a graph are tensors",
                        op,
                    )

    def _verify_entries(self) -> None:
        """An entry is one input's, and no output's."""
        name, seen = self.sym_name.data, dict[str, str]()
        for spec in self.outputs:
            if spec.entry is not None or spec.made is not None:
                raise VerifyException(
                    f"{spec.name} of @{name}: an output is no entry of a parameter file"
                )
        for spec in self.inputs:
            if spec.entry is None:
                continue
            if (first := seen.setdefault(spec.entry, spec.name)) != spec.name:
                raise VerifyException(
                    f'entry "{spec.entry}" is given to {first} and to {spec.name} of @{name}; '
                    "one input has it, which may be read at both places"
                )

    @classmethod
    def _type_fault(cls, t: Attribute) -> str | None:
        """What is wrong with ``t`` as the type of an input or output, or None."""
        if isinstance(t, cls.TENSOR):
            return None
        return f"inputs and outputs are !{cls.TENSOR.name}, not {t}"

    @classmethod
    def parse(cls, parser: Parser) -> SignatureOp:
        name = parser.parse_symbol_name().data
        start = parser.pos
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_input(parser)
        )
        parser.parse_punctuation("->")
        outputs = _parse_outputs(parser)
        for t in (*(a.type for a, _ in arguments), *(t for _, t, _ in outputs)):
            if (fault := cls._type_fault(t)) is not None:
                parser.raise_error(fault, start, parser.pos)
        inputs = [argument.type for argument, _ in arguments]
        symbols = tensor_symbols((*inputs, *(t for _, t, _ in outputs)))
        facts: tuple[Assumption, ...] = ()
        if parser.parse_optional_keyword("assuming") is not None:
            start = parser.pos
            facts = parse_assumptions(parser)
            for fact in facts:
                if (fault := unknown_symbol(fact, symbols)) is not None:
                    parser.raise_error(f"{fault} of @{name}", start, parser.pos)
        extra = parser.parse_optional_attr_dict_with_keyword()
        arg_names = [
            f"arg{i}" if (text := argument.name.text[1:]).isdigit() else text
            for i, (argument, _) in enumerate(arguments)
        ]
        given = [n for n, _, _ in outputs]
        defaults = default_output_names(
            len(outputs), (*arg_names, *(n for n in given if n is not None))
        )
        res_names = [n or d for n, d in zip(given, defaults, strict=True)]
        start = parser.pos
        body = parser.parse_region([argument for argument, _ in arguments])
        last = body.block.last_op
        if last is None or not last.has_trait(IsTerminator, value_if_unregistered=True):
            dialect = cls.name.split(".")[0]
            parser.raise_error(f"the body of @{name} does not end in {dialect}.output", start)
        op = cls(
            name,
            inputs,
            [t for _, t, _ in outputs],
            body,
            arg_names=arg_names,
            res_names=res_names,
            arg_attrs=[attrs for _, attrs in arguments],
            res_attrs=[attrs for _, _, attrs in outputs],
            assumptions=facts,
        )
        if extra is not None:
            op.attributes |= extra.data
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        args = self.body.block.args
        for arg, name in zip(args, self.arg_names, strict=True):
            fix_name(printer, arg, name.data)
        with printer.in_parens():
            for i, (arg, attrs) in enumerate(zip(args, self.arg_attrs, strict=True)):
                if i:
                    printer.print_string(", ")
                printer.print_ssa_value(arg)
                printer.print_string(": ")
                printer.print_attribute(arg.type)
                _print_attrs(printer, attrs)
                if printer.print_debuginfo:
                    printer.print_string(" ")
                    printer.print_attribute(arg.location)
        printer.print_string(" -> ")
        with printer.in_parens():
            outputs = zip(self.res_names, self.function_type.outputs, self.res_attrs, strict=True)
            for i, (name, type, attrs) in enumerate(outputs):
                printer.print_string((", " if i else "") + f"{name.data}: ")
                printer.print_attribute(type)
                _print_attrs(printer, attrs)
        if self.facts:
            printer.print_string(f" assuming {self.assumptions.text()}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


def _types(types: Iterable[Attribute]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def _strings(names: Iterable[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(n) for n in names])


def _dictionaries(
    attrs: Sequence[Mapping[str, Attribute]] | None, count: int
) -> ArrayAttr[DictionaryAttr]:
    if attrs is None:
        return ArrayAttr([DictionaryAttr({})] * count)
    return ArrayAttr([DictionaryAttr(dict(a)) for a in attrs])


def _parse_input(parser: Parser) -> tuple[Parser.Argument, dict[str, Attribute]]:
    argument = parser.parse_argument()
    attrs = _parse_attrs(parser)
    argument.location = parser.parse_optional_location() or argument.location
    return argument, attrs


def _parse_attrs(parser: Parser) -> dict[str, Attribute]:
    start = parser.pos
    attrs = parser.parse_optional_dictionary_attr_dict()
    if (fault := _attr_fault(attrs)) is not None:
        parser.raise_error(fault, start, parser.pos)
    return attrs


def _parse_outputs(parser: Parser) -> list[tuple[str | None, Attribute, dict[str, Attribute]]]:
    def one() -> tuple[str | None, Attribute, dict[str, Attribute]]:
        name = parser.parse_optional_identifier()
        if name is not None:
            parser.parse_punctuation(":")
        return name, parser.parse_type(), _parse_attrs(parser)

    several = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, one)
    if several is None:  # a single bare type; attributes need the parentheses
        return [(None, parser.parse_type(), {})]
    return several


def _print_attrs(printer: Printer, attrs: DictionaryAttr) -> None:
    if attrs.data:
        printer.print_string(" ")
        printer.print_attribute(attrs)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED = re.compile(r"(.+)_(\d+)")


def fix_name(printer: Printer, value: SSAValue, name: str) -> None:
    """Make ``printer`` spell ``value`` exactly as ``name``.

    A name hint drops a trailing ``_<digits>``; an input's name is the ABI and keeps it.
    Later values with the same stem are numbered after it.
    """
    cast("dict[SSAValue, str]", vars(printer)["_ssa_values"])[value] = name
    taken = printer.ssa_names
    taken[name] = max(taken.get(name, 0), 1)
    if (numbered := _NUMBERED.fullmatch(name)) is not None:
        stem, number = numbered[1], int(numbered[2])
        taken[stem] = max(taken.get(stem, 0), number + 1)
