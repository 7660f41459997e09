"""The ``plan`` dialect: how one region runs on one architecture (S8).

A ``plan.schedule`` names a region and a variant of its kernel, says under which facts
about the symbols that variant may run, and holds every choice of the schedule as a
typed property.  The order of the schedules of a region is their order of dispatch.

```mlir
plan.schedule @gemm variant "tma" when (K mod 8 == 0, N mod 8 == 0) {
  arch = "sm_90a",
  tensorize = "acc",
  ...
}
```

A schedule may have a ``form`` of the region: the same outputs of the same inputs, computed by other
ops, from which its kernel is built.  ``plan.schedule @softmax variant "warp" {…} form {…}`` holds
one ``region.kernel`` of the region's name and signature.

Axis names in ``bind``, ``cache``, ``vectorize_axis`` and ``predicate_tail`` follow the
specification's section 8: ``m.o`` walks the blocks' tiles, ``m.i`` lies inside a tile,
``m.i.o`` walks the warp tiles and ``m.i.i`` lies inside one.

Every field changes the kernel or is refused.  ``RESTATED`` are those that say what the region and
the other fields make so, for whoever reads the schedule; ``plan-select`` writes them where a user
says nothing of them, and neither it nor ``region-to-gpu`` takes a schedule in which they are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Dialect, Region
from xdsl.irdl import irdl_op_definition, opt_region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import ParseError, VerifyException

from polyc.dialects.common.arch import ARCHS, arch_names
from polyc.dialects.common.dim import (
    Assumption,
    AssumptionsAttr,
    parse_assumption,
    parse_assumptions,
)
from polyc.dialects.plan.checks import (
    CP_ASYNC_BYTES,
    LOADERS,
    MAX_VECTOR_BYTES,
    MMAS,
    RASTERS,
    check_schedule,
    shape_text,
)
from polyc.dialects.plan.fields import (
    BY_NAME,
    FIELDS,
    Value,
    check_kind,
    no_field,
    parse_entry,
    print_value,
    to_attr,
)
from polyc.dialects.plan.resources import OPERAND_BYTES, ScheduleResources
from polyc.dialects.region import KernelOp

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "CP_ASYNC_BYTES",
    "LOADERS",
    "MAX_VECTOR_BYTES",
    "MMAS",
    "OPERAND_BYTES",
    "RASTERS",
    "Plan",
    "ScheduleOp",
    "is_form",
]

# The op -----------------------------------------------------------------------------------


@irdl_op_definition
class ScheduleOp(ScheduleResources):
    """The schedule of one variant of one region's kernel (S8.1).

    ``Schedule`` has its fields, ``ScheduleResources`` what it takes of the hardware.
    """

    name = "plan.schedule"

    forms = opt_region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(
        self,
        region: str | SymbolRefAttr,
        variant: str,
        fields: Mapping[str, Value],
        when: Sequence[Assumption] = (),
        form: Region | None = None,
    ) -> None:
        """``form`` holds the region's kernel as this schedule computes it, where that differs.

        Raises ValueError for an unknown field, one left out, or one of a wrong kind.
        """
        props: dict[str, Attribute] = {
            "region": SymbolRefAttr(region) if isinstance(region, str) else region,
            "variant": StringAttr(variant),
            "when": AssumptionsAttr(tuple(when)),
        }
        for name in fields:
            if name not in BY_NAME:
                raise ValueError(no_field(name))
        for field in FIELDS:
            value = fields.get(field.name, field.default)
            if value is None:
                raise ValueError(f"a schedule needs the field {field.name!r}")
            if field.name == "notes" and not value:
                continue
            try:
                props[field.name] = to_attr(value, field.kind)
            except (ValueError, VerifyException) as error:
                raise ValueError(f"field {field.name!r}: {error}") from None
        super().__init__(properties=props, regions=[[] if form is None else [form]])

    @property
    def form(self) -> KernelOp | None:
        """The region as this schedule computes it; None where that is what the region says."""
        kernel = None if self.forms is None else self.forms.block.first_op
        return kernel if isinstance(kernel, KernelOp) else None

    def verify_(self) -> None:
        """Raises VerifyException; a resource that is exceeded says ``ResourceExceeded``."""
        if self.arch.data not in ARCHS:
            raise VerifyException(
                f"there is no architecture {self.arch.data!r}; choose {arch_names()}"
            )
        for field in FIELDS:
            if field.name in self.properties:
                check_kind(self.properties[field.name], field)
        check_schedule(self)
        if self.forms is not None:
            self._verify_form()

    def _verify_form(self) -> None:
        """One kernel of the region's name, and of its signature where the region is there."""
        assert self.forms is not None
        form, name = self.form, self.region.string_value()
        if form is None or form.next_op is not None or form.sym_name.data != name:
            raise VerifyException(f"the form of a schedule of @{name} is one region.kernel @{name}")
        block = self.parent_block()
        for op in () if block is None else block.ops:
            if isinstance(op, KernelOp) and op.sym_name == form.sym_name:
                differ = [
                    key
                    for key in {**op.properties, **form.properties}
                    if op.properties.get(key) != form.properties.get(key)
                ]
                if differ:
                    raise VerifyException(
                        f"the form of a schedule of @{name} has its signature; "
                        f"{', '.join(differ)} differ"
                    )

    # Text

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        region = parser.parse_symbol_name().data
        parser.parse_keyword("variant")
        variant = parser.parse_str_literal()
        when: tuple[Assumption, ...] = ()
        if parser.parse_optional_keyword("when") is not None:
            when = parse_assumptions(parser)
        start = parser.pos
        entries = parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, lambda: parse_entry(parser)
        )
        fields: dict[str, Value] = {}
        for name, value in entries:
            if name in fields:
                parser.raise_error(f"the field {name!r} is given twice", start)
            fields[name] = value
        form = None
        if parser.parse_optional_keyword("form") is not None:
            form = parser.parse_region()
        try:
            op = cls(region, variant, fields, when, form)
        except ValueError as error:
            parser.raise_error(str(error), start)
        extra = parser.parse_optional_attr_dict_with_keyword()
        if extra is not None:
            op.attributes = dict(extra.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.region.string_value())
        printer.print_string(" variant ")
        printer.print_string_literal(self.variant.data)
        if self.when.data:
            printer.print_string(f" when {self.when.text()}")
        printer.print_string(" {")
        values = self.fields()
        with printer.indented():
            for i, (name, value) in enumerate(values.items()):
                printer.print_string(",\n" if i else "\n")
                printer.print_string(f"{name} = ")
                print_value(printer, value)
        printer.print_string("\n}")
        if self.forms is not None:
            printer.print_string(" form ")
            printer.print_region(self.forms)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    # JSON

    def to_json(self) -> dict[str, object]:
        """A JSON object with the specification's field names; ``from_json`` takes it back.

        ``warp_tile`` is ``"64x64"``, ``vectorize`` is ``{"axis": …, "width": …}``, and
        ``when`` is a list of conditions as text.
        """
        out: dict[str, object] = {
            "region": self.region.string_value(),
            "variant": self.variant.data,
            "when": [str(fact) for fact in self.when.data],
        }
        for name, value in self.fields().items():
            if name == "vectorize_axis":
                continue
            if name == "warp_tile":
                out[name] = shape_text(cast("list[int]", value))
            elif name == "vectorize":
                out[name] = {"axis": self.vectorize_axis.data, "width": value}
            else:
                out[name] = value
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, object], region: str | None = None) -> Self:
        """The op of a JSON object; ``region`` names the region when the object does not.

        ``arch`` may also be ``sm80`` or ``sm90``, as the specification writes it.  Raises
        ValueError with the field and its value when the object is not a plan.
        """
        fields: dict[str, Value] = {}
        names: dict[str, object] = {"region": region, "variant": "user"}
        when: list[Assumption] = []
        for key, value in data.items():
            if key in names:
                names[key] = value
            elif key == "when":
                when = _conditions(value)
            else:
                fields |= plain_field(key, value)
        name, variant = names["region"], names["variant"]
        if not isinstance(name, str) or not isinstance(variant, str):
            raise ValueError("a plan names its region and variant by strings")
        return cls(name, variant, fields, when)


def is_form(kernel: KernelOp) -> bool:
    """Whether this is no region of the module but a schedule's form of one."""
    return isinstance(kernel.parent_op(), ScheduleOp)


def plain_field(name: str, value: object) -> dict[str, Value]:
    """The fields of a schedule that one of a JSON object stands for.

    Raises ValueError for a name that there is not, or a value of another kind.
    """
    if name == "when":
        _conditions(value)
        return {}
    made: dict[str, object] = {name: value}
    if name == "warp_tile" and isinstance(value, str):
        sizes = value.split("x")
        if not all(size.isdecimal() for size in sizes):
            raise ValueError(f"field 'warp_tile': expected sizes as in 64x64, got {value!r}")
        made[name] = [int(size) for size in sizes]
    elif name == "vectorize" and isinstance(value, dict):
        record = cast("dict[str, object]", value)
        if set(record) != {"axis", "width"}:
            raise ValueError(f"field 'vectorize': expected axis and width, got {record}")
        made = {"vectorize": record["width"], "vectorize_axis": record["axis"]}
    elif name == "arch" and value in ("sm80", "sm90", "sm_90"):
        made[name] = "sm_80" if value == "sm80" else "sm_90a"
    for key, item in made.items():
        if key not in BY_NAME:
            raise ValueError(no_field(key))
        if item is None:
            continue  # a null is a field left out
        try:
            to_attr(cast("Value", item), BY_NAME[key].kind)
        except (ValueError, VerifyException) as error:
            raise ValueError(f"field {key!r}: {error}") from None
    return cast("dict[str, Value]", made)


def _conditions(value: object) -> list[Assumption]:
    listed = cast("list[object]", value)
    if not isinstance(value, list) or not all(isinstance(fact, str) for fact in listed):
        raise ValueError(f"field 'when': expected a list of conditions, got {value!r}")
    return [_condition(cast("str", fact)) for fact in listed]


def _condition(text: str) -> Assumption:
    parser = Parser(Context(), text)
    try:
        fact = parse_assumption(parser)
    except ParseError:
        raise ValueError(
            f"field 'when': {text!r} is not a condition such as K mod 8 == 0"
        ) from None
    if str(fact) != text and parser.pos < len(text.rstrip()):
        raise ValueError(f"field 'when': {text!r} goes on after the condition {fact}")
    return fact


Plan = Dialect("plan", [ScheduleOp], [])
"""How the regions run."""
