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

Axis names in ``bind``, ``cache``, ``vectorize_axis`` and ``predicate_tail`` follow the
specification's section 8: ``m.o`` walks the blocks' tiles, ``m.i`` lies inside a tile,
``m.i.o`` walks the warp tiles and ``m.i.i`` lies inside one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from polyc.dialects.common.arch import ARCHS, Arch, arch_names
from polyc.dialects.common.dim import (
    Assumption,
    AssumptionsAttr,
    parse_assumption,
    parse_assumptions,
)
from polyc.dialects.plan import attention as plan_attention
from polyc.dialects.plan.checks import (
    CP_ASYNC_BYTES,
    LOADERS,
    MAX_VECTOR_BYTES,
    MMAS,
    OPERAND_BYTES,
    RASTERS,
    check_schedule,
    shape_text,
)
from polyc.dialects.plan.fields import (
    BY_NAME,
    FIELDS,
    Value,
    check_kind,
    from_attr,
    no_field,
    parse_entry,
    print_value,
    to_attr,
)

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
]

SHARED_ALIGN = 1024
"""A 128-byte swizzle pattern repeats every 1024 bytes; tiles start there."""


STAGED_COLUMNS = (128, 64)
"""Columns of the output that are stored at once, the most first: whole panels of a swizzle."""


# The op -----------------------------------------------------------------------------------


@irdl_op_definition
class ScheduleOp(IRDLOperation):
    """The schedule of one variant of one region's kernel (S8.1).

    ``region``          the ``region.kernel`` that it schedules
    ``variant``         the variant's name, unique among the region's schedules
    ``when``            facts about the symbols under which the variant may run (S9.3)
    ``arch``            ``sm_80`` or ``sm_90a``
    ``tensorize``       the name of the reduction that runs on the tensor cores; empty for none.
                        In attention it names the scores; the product with V comes along
    ``mma``             ``wgmma``, ``mma.sync``, or ``none`` for threads that compute alone
    ``loader``          how operands come in: ``tma``, ``cp_async`` or ``register``
    ``tile``            [BM, BN, BK], the elements that one block computes at a step; of attention
                        queries, keys and features
    ``stages``          depth of the shared-memory ring, 2 to 8; 1 where there is none
    ``warp_tile``       [WM, WN] of one warp (mma.sync) or consumer warpgroup (wgmma); of attention
                        queries and features of V
    ``fragment_buffers``  steps over k whose operands a thread of mma.sync holds: 1, or 2 to load
                        one step ahead
    ``consumers``       consumer warpgroups of a wgmma kernel; 1 for mma.sync
    ``pingpong``        each consumer has a tile of its own; else they share one
    ``registers``       registers of a thread of [producer, consumer]; empty: no split
    ``cluster``         [m, n] tiles that the blocks of a cluster take together; ``multicast``
                        shares loads in it
    ``raster``          order of the tiles: ``row``, ``column``, ``grouped`` by ``group`` rows
    ``split_k``         blocks that share one tile's reduction
    ``persistent``      blocks loop over tiles
    ``vectorize``       elements of one global access, along ``vectorize_axis``
    ``bind``            axis to hardware index, such as ``m.o`` to ``block.y``
    ``cache``           tensors kept in shared memory: tensor, where, at, pingpong
    ``predicate_tail``  axes whose last tile is guarded
    ``epilogue``        what is applied to the accumulator, in order
    ``layout_hints``    swizzles and output strides
    ``algo_choice``     the algorithm of each contraction
    ``local_edges``     values handed on by ``reg`` or ``smem_ring`` (with its depth)
    ``notes``           what the compiler gave up to fit the resources (S8.2)
    """

    name = "plan.schedule"

    region = prop_def(SymbolRefAttr)
    variant = prop_def(StringAttr)
    when = prop_def(AssumptionsAttr)
    arch = prop_def(StringAttr)
    tensorize = prop_def(StringAttr)
    mma = prop_def(StringAttr)
    loader = prop_def(StringAttr)
    tile = prop_def(DenseArrayBase)
    stages = prop_def(IntegerAttr)
    warp_tile = prop_def(DenseArrayBase)
    fragment_buffers = prop_def(IntegerAttr)
    consumers = prop_def(IntegerAttr)
    pingpong = prop_def(BoolAttr)
    registers = prop_def(DenseArrayBase)
    cluster = prop_def(DenseArrayBase)
    multicast = prop_def(BoolAttr)
    raster = prop_def(StringAttr)
    group = prop_def(IntegerAttr)
    split_k = prop_def(IntegerAttr)
    persistent = prop_def(BoolAttr)
    vectorize = prop_def(IntegerAttr)
    vectorize_axis = prop_def(StringAttr)
    bind = prop_def(DictionaryAttr)
    cache = prop_def(ArrayAttr[DictionaryAttr])
    predicate_tail = prop_def(ArrayAttr[StringAttr])
    epilogue = prop_def(ArrayAttr[StringAttr])
    layout_hints = prop_def(DictionaryAttr)
    algo_choice = prop_def(DictionaryAttr)
    local_edges = prop_def(ArrayAttr[DictionaryAttr])
    notes = opt_prop_def(ArrayAttr[StringAttr])

    def __init__(
        self,
        region: str | SymbolRefAttr,
        variant: str,
        fields: Mapping[str, Value],
        when: Sequence[Assumption] = (),
    ) -> None:
        """Raises ValueError for an unknown field, one left out, or one of a wrong kind."""
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
        super().__init__(properties=props)

    # Plain values

    def fields(self) -> dict[str, Value]:
        """Every field's plain value, in the order of ``FIELDS``."""
        return {
            f.name: from_attr(self.properties[f.name]) for f in FIELDS if f.name in self.properties
        }

    def integer(self, name: str) -> int:
        """The value of an integer field."""
        return cast("IntegerAttr", self.properties[name]).value.data

    def integers(self, name: str) -> tuple[int, ...]:
        """The values of a field that lists integers."""
        return tuple(
            int(v) for v in cast("DenseArrayBase[IntegerType]", self.properties[name]).get_values()
        )

    def flag(self, name: str) -> bool:
        """The value of a boolean field."""
        return bool(self.integer(name))

    @property
    def target(self) -> Arch:
        """The architecture's limits."""
        return ARCHS[self.arch.data]

    @property
    def pattern(self) -> str | None:
        """What ``algo_choice`` says that the region is; None where it does not name one thing."""
        named = list(self.algo_choice.data)
        return named[0] if len(named) == 1 else None

    @property
    def kernel_name(self) -> str:
        """The name of the kernel that the schedule becomes."""
        return f"{self.region.string_value()}_{self.variant.data}"

    @property
    def tile_sizes(self) -> tuple[int, int, int]:
        """BM, BN, BK in elements."""
        m, n, k = self.integers("tile")
        return m, n, k

    @property
    def warp_tile_sizes(self) -> tuple[int, int]:
        """WM, WN in elements."""
        m, n = self.integers("warp_tile")
        return m, n

    def threads(self) -> int:
        """Threads of a block: the consumers' and, with wgmma, one producer warpgroup's."""
        if plan_attention.is_attention(self):
            return plan_attention.threads(self)
        if self.mma.data == "wgmma":
            return 128 * (1 + self.integer("consumers"))
        m, n, _ = self.tile_sizes
        wm, wn = self.warp_tile_sizes
        return self.target.warp * (m // wm) * (n // wn)

    def ring_bytes(self) -> int:
        """Bytes of a block's ring of stages, with a full and an empty mbarrier of 8 bytes each."""
        if plan_attention.is_attention(self):
            return plan_attention.tile_bytes(self)
        if self.mma.data == "none":
            return 0
        m, n, k = self.tile_sizes
        stages = self.integer("stages")
        barriers = 16 * stages if self.loader.data == "tma" else 0
        return stages * (m * k + k * n) * OPERAND_BYTES + barriers

    @property
    def staged_tile(self) -> tuple[int, int] | None:
        """[rows, columns] of the output's part that a persistent block stores at once by TMA.

        It has its own shared memory, as the ring fills for the next tile meanwhile: as much of it
        as the ring leaves.  None where threads store from registers.
        """
        m, n, _ = self.tile_sizes
        if plan_attention.is_attention(self):
            return None
        if not self.flag("persistent") or self.mma.data != "wgmma" or self.loader.data != "tma":
            return None
        widths = [w for w in STAGED_COLUMNS if n % w == 0] or [n]
        room = self.target.shared_bytes - SHARED_ALIGN - self.ring_bytes()
        return m, next((w for w in widths if m * w * OPERAND_BYTES <= room), widths[-1])

    def staged_bytes(self) -> int:
        """Bytes of ``staged_tile``, of elements of 16 bits."""
        staged = self.staged_tile
        return 0 if staged is None else staged[0] * staged[1] * OPERAND_BYTES

    def shared_bytes(self) -> int:
        """What a block's shared memory takes at most: the ring, the output's part, and room to
        align them."""
        room = SHARED_ALIGN if self.loader.data == "tma" else 0
        return self.ring_bytes() + self.staged_bytes() + room

    def accumulator_registers(self) -> int:
        """32-bit registers of a thread that hold its accumulators."""
        if plan_attention.is_attention(self):
            return plan_attention.accumulator_registers(self)
        wm, wn = self.warp_tile_sizes
        return wm * wn // (128 if self.mma.data == "wgmma" else self.target.warp)

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
        try:
            op = cls(region, variant, fields, when)
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
