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

from polyc.dialects.arch import ARCHS, Arch, arch_names
from polyc.dialects.dim import Assumption, AssumptionsAttr, parse_assumption, parse_assumptions
from polyc.dialects.plan_fields import (
    ALGORITHMS,
    BY_NAME,
    FIELDS,
    Value,
    check_kind,
    from_attr,
    parse_entry,
    print_value,
    record_of,
    to_attr,
)

if TYPE_CHECKING:
    from typing import Self

MMAS = ("wgmma", "mma.sync")
LOADERS = ("tma", "cp_async", "register")
RASTERS = ("row", "column", "grouped")
OPERAND_BYTES = 2
"""Bytes of a tensor-core operand element: f16 and bf16 (S0.1)."""

CP_ASYNC_BYTES = (4, 8, 16)
MAX_VECTOR_BYTES = 16
SHARED_ALIGN = 1024
"""A 128-byte swizzle pattern repeats every 1024 bytes; tiles start there."""


STAGED_COLUMNS = (128, 64)
"""Columns of the output that are stored at once, the most first: whole panels of a swizzle."""


def _shape_text(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


# The op -----------------------------------------------------------------------------------


@irdl_op_definition
class ScheduleOp(IRDLOperation):
    """The schedule of one variant of one region's kernel (S8.1).

    ``region``          the ``region.kernel`` that it schedules
    ``variant``         the variant's name, unique among the region's schedules
    ``when``            facts about the symbols under which the variant may run (S9.3)
    ``arch``            ``sm_80`` or ``sm_90a``
    ``tensorize``       the name of the reduction that runs on the tensor cores
    ``mma``             ``wgmma`` or ``mma.sync``
    ``loader``          how operands come in: ``tma``, ``cp_async`` or ``register``
    ``tile``            [BM, BN, BK], the elements that one block computes at a step
    ``stages``          depth of the shared-memory ring, 2 to 8
    ``warp_tile``       [WM, WN] of one warp (mma.sync) or consumer warpgroup (wgmma)
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
                raise ValueError(
                    f"a schedule has no field {name!r}; its fields are "
                    + ", ".join(f.name for f in FIELDS)
                )
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
        if self.mma.data == "wgmma":
            return 128 * (1 + self.integer("consumers"))
        m, n, _ = self.tile_sizes
        wm, wn = self.warp_tile_sizes
        return self.target.warp * (m // wm) * (n // wn)

    def ring_bytes(self) -> int:
        """Bytes of a block's ring of stages, with a full and an empty mbarrier of 8 bytes each."""
        m, n, k = self.tile_sizes
        stages = self.integer("stages")
        barriers = 16 * stages if self.loader.data == "tma" else 0
        return stages * (m * k + k * n) * OPERAND_BYTES + barriers

    @property
    def staged_tile(self) -> tuple[int, int] | None:
        """[rows, columns] of the output's part that a persistent block stores at once by TMA.

        It has its own shared memory, as the ring fills for the next tile meanwhile; None where
        threads store from registers.
        """
        m, n, _ = self.tile_sizes
        if not self.flag("persistent") or self.mma.data != "wgmma" or self.loader.data != "tma":
            return None
        return m, next((w for w in STAGED_COLUMNS if n % w == 0), n)

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
        wm, wn = self.warp_tile_sizes
        return wm * wn // (128 if self.mma.data == "wgmma" else self.target.warp)

    # Verifier

    def verify_(self) -> None:
        """Raises VerifyException; a resource that is exceeded says ``ResourceExceeded``."""
        if self.arch.data not in ARCHS:
            raise VerifyException(
                f"there is no architecture {self.arch.data!r}; choose {arch_names()}"
            )
        for field in FIELDS:
            if field.name in self.properties:
                check_kind(self.properties[field.name], field)
        self._verify_unique()
        self._verify_choices()
        if self.mma.data == "wgmma":
            self._verify_wgmma()
        else:
            self._verify_mma_sync()
        self._verify_loader()
        self._verify_edges()
        self._verify_shared()

    def _verify_unique(self) -> None:
        before = self.prev_op
        while before is not None:
            if (
                isinstance(before, ScheduleOp)
                and before.region == self.region
                and before.variant == self.variant
            ):
                raise VerifyException(
                    f"region {self.region.string_value()} has two schedules of variant "
                    f"{self.variant.data!r}; give one another name"
                )
            before = before.prev_op

    def _verify_choices(self) -> None:
        arch = self.target
        _one_of("mma", self.mma.data, MMAS)
        _one_of("loader", self.loader.data, LOADERS)
        _one_of("raster", self.raster.data, RASTERS)
        for name, count in (("tile", 3), ("warp_tile", 2), ("cluster", 2)):
            sizes = self.integers(name)
            if len(sizes) != count or min(sizes) < 1:
                raise VerifyException(
                    f"{name} is {list(sizes)}; it needs {count} sizes of at least 1"
                )
        for pattern, way in record_of(self.algo_choice).items():
            if pattern not in ALGORITHMS:
                known = ", ".join(ALGORITHMS)
                raise VerifyException(f"algo_choice is for one of {known}, not for {pattern}")
            _one_of(f"algo_choice of {pattern}", str(way), ALGORITHMS[pattern])
        for name in ("consumers", "group", "split_k"):
            if self.integer(name) < 1:
                raise VerifyException(f"{name} is {self.integer(name)}; it is at least 1")
        stages = self.integer("stages")
        if not 2 <= stages <= 8:
            raise VerifyException(f"stages is {stages}; a ring has 2 to 8 stages")
        blocks = self.integers("cluster")
        if blocks[0] * blocks[1] > arch.cluster:
            raise VerifyException(
                f"ResourceExceeded: a cluster of {_shape_text(blocks)} has "
                f"{blocks[0] * blocks[1]} blocks, {arch.name} allows {arch.cluster}"
            )
        if self.flag("multicast") and blocks[0] * blocks[1] == 1:
            raise VerifyException("multicast needs a cluster of more than one block")
        for fact in self.when.data:
            if (value := fact.expr.constant()) is not None and not (
                value == 0 if fact.kind == "==" else value >= 0
            ):
                raise VerifyException(f"the condition {fact} never holds; drop the variant")

    def _verify_wgmma(self) -> None:
        arch, consumers = self.target, self.integer("consumers")
        m, n, k = self.tile_sizes
        wm, wn = self.warp_tile_sizes
        if not arch.wgmma:
            raise VerifyException(f"wgmma needs sm_90a, the plan is for {arch.name}")
        if (buffers := self.integer("fragment_buffers")) != 1:
            raise VerifyException(
                f"fragment_buffers is {buffers}, and wgmma has no operands in registers; drop it"
            )
        if wm % 64 or wn % 8 or wn > 256:
            raise VerifyException(
                f"warp_tile {wm}x{wn} does not fit wgmma m64nNk16: the first size is a "
                "multiple of 64, the second a multiple of 8 up to 256"
            )
        if k % 16:
            raise VerifyException(f"BK is {k}; a wgmma step takes a multiple of 16")
        shared = {(wm * consumers, wn), (wm, wn * consumers)}
        if (m, n) not in ({(wm, wn)} if self.flag("pingpong") else shared):
            raise VerifyException(
                f"{consumers} consumers of {wm}x{wn} do not make up the tile {m}x{n}"
            )
        if 128 * (1 + consumers) > arch.threads:
            raise VerifyException(
                f"ResourceExceeded: a producer and {consumers} consumer warpgroups are "
                f"{128 * (1 + consumers)} threads, {arch.name} allows {arch.threads}"
            )
        self._verify_registers(self.accumulator_registers(), f"warp_tile {wm}x{wn}")
        self._verify_split()

    def _verify_split(self) -> None:
        """The register split against the pool that the block gets at launch."""
        split, consumers = self.integers("registers"), self.integer("consumers")
        if not split:
            return
        if len(split) != 2 or any(r % 8 or not 24 <= r <= 256 for r in split):
            raise VerifyException(
                f"registers is {list(split)}; it is [producer, consumer], each a multiple of 8 "
                "from 24 to 256 (PTX ISA, setmaxnreg)"
            )
        groups = 1 + consumers
        launch = min(256, self.target.registers // (128 * groups) // 8 * 8)
        wanted = split[0] + consumers * split[1]
        if wanted > launch * groups:
            raise VerifyException(
                f"ResourceExceeded: registers {split[0]} + {consumers} * {split[1]} = {wanted} "
                f"are over the {groups} * {launch} = {launch * groups} that {groups} warpgroups "
                "get at launch"
            )
        if self.accumulator_registers() >= split[1]:
            raise VerifyException(
                f"ResourceExceeded: the accumulators take {self.accumulator_registers()} "
                f"registers of a consumer thread, the split gives {split[1]}"
            )

    def _verify_mma_sync(self) -> None:
        arch = self.target
        m, n, k = self.tile_sizes
        wm, wn = self.warp_tile_sizes
        if wm % 16 or wn % 16:
            raise VerifyException(
                f"warp_tile {wm}x{wn} is not a multiple of 16x16: a warp loads two m16n8k16 "
                "operands of b at once"
            )
        if k % 16:
            raise VerifyException(f"BK is {k}; an mma.sync step takes a multiple of 16")
        if m % wm or n % wn:
            raise VerifyException(f"warp_tile {wm}x{wn} does not divide the tile {m}x{n}")
        buffers = self.integer("fragment_buffers")
        if buffers not in (1, 2):
            raise VerifyException(
                f"fragment_buffers is {buffers}; a thread holds the operands of 1 or 2 steps over k"
            )
        if buffers == 2 and k % 32:
            raise VerifyException(
                f"BK is {k}; two fragment_buffers take turns in an even number of steps, so it is "
                "a multiple of 32"
            )
        if self.integer("consumers") != 1 or self.flag("pingpong") or self.integers("registers"):
            raise VerifyException(
                "consumers, pingpong and registers belong to wgmma kernels; drop them"
            )
        if self.threads() > arch.threads:
            raise VerifyException(
                f"ResourceExceeded: tile {m}x{n} in warp tiles of {wm}x{wn} takes "
                f"{self.threads()} threads, {arch.name} allows {arch.threads}"
            )
        # k16 steps of both operands beside the accumulators: 4 and 2 registers a fragment.
        operands = (wm // 16 * 4 + wn // 8 * 2) * buffers
        self._verify_registers(self.accumulator_registers() + operands, f"warp_tile {wm}x{wn}")
        per_block = self.accumulator_registers() * self.threads()
        if per_block > arch.registers:
            raise VerifyException(
                f"ResourceExceeded: the accumulators of tile {m}x{n} take {per_block} registers, "
                f"{arch.name} has {arch.registers}"
            )

    def _verify_registers(self, needed: int, what: str) -> None:
        if needed > self.target.registers_thread:
            raise VerifyException(
                f"ResourceExceeded: {what} takes at least {needed} registers a thread, "
                f"{self.target.name} allows {self.target.registers_thread}; make it smaller"
            )

    def _verify_loader(self) -> None:
        width = self.integer("vectorize")
        size = width * OPERAND_BYTES
        if width < 1 or width & (width - 1) or size > MAX_VECTOR_BYTES:
            raise VerifyException(
                f"vectorize is {width} elements, {size} bytes; a vector access is a power of two "
                f"of at most {MAX_VECTOR_BYTES} bytes"
            )
        if self.loader.data == "cp_async" and size not in CP_ASYNC_BYTES:
            raise VerifyException(
                f"cp.async copies 4, 8 or 16 bytes, vectorize {width} is {size} bytes; use the "
                "register loader"
            )
        if self.loader.data == "tma":
            if not self.target.tma:
                raise VerifyException(f"TMA needs sm_90a, the plan is for {self.arch.data}")
            if self.mma.data != "wgmma":
                raise VerifyException("the tma loader feeds wgmma; use cp_async with mma.sync")
        elif self.mma.data == "wgmma":
            raise VerifyException(f"wgmma is fed by the tma loader, not by {self.loader.data}")

    def _verify_edges(self) -> None:
        for edge in map(record_of, self.local_edges.data):
            buffer = edge.get("buffer")
            if "from" not in edge or "to" not in edge or buffer not in ("reg", "smem_ring"):
                raise VerifyException(
                    f"a local edge has from, to and a buffer, reg or smem_ring; got {edge}"
                )
            depth = edge.get("depth")
            if buffer == "smem_ring" and not (type(depth) is int and 2 <= depth <= 8):
                raise VerifyException(f"an smem_ring has a depth of 2 to 8, got {depth or 'none'}")

    def _verify_shared(self) -> None:
        needed, limit = self.shared_bytes(), self.target.shared_bytes
        if needed > limit:
            m, n, k = self.tile_sizes
            raise VerifyException(
                f"ResourceExceeded: tile {m}x{n}x{k} with {self.integer('stages')} stages takes "
                f"{needed} bytes of shared memory, {self.arch.data} allows {limit}; lower stages "
                "or the tile"
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
                out[name] = _shape_text(cast("list[int]", value))
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
        rest = dict(data)
        name = rest.pop("region", region)
        variant = rest.pop("variant", "user")
        if not isinstance(name, str) or not isinstance(variant, str):
            raise ValueError("a plan names its region and variant by strings")
        facts = rest.pop("when", [])
        if not isinstance(facts, list) or not all(
            isinstance(fact, str) for fact in cast("list[object]", facts)
        ):
            raise ValueError(f"field 'when': expected a list of conditions, got {facts!r}")
        when = [_condition(fact) for fact in cast("list[str]", facts)]
        tile = rest.get("warp_tile")
        if isinstance(tile, str):
            sizes = tile.split("x")
            if not all(size.isdecimal() for size in sizes):
                raise ValueError(f"field 'warp_tile': expected sizes as in 64x64, got {tile!r}")
            rest["warp_tile"] = [int(size) for size in sizes]
        vector = rest.get("vectorize")
        if isinstance(vector, dict):
            record = cast("dict[str, object]", vector)
            if set(record) != {"axis", "width"}:
                raise ValueError(f"field 'vectorize': expected axis and width, got {record}")
            rest["vectorize"], rest["vectorize_axis"] = record["width"], record["axis"]
        if (arch := rest.get("arch")) in ("sm80", "sm90", "sm_90"):
            rest["arch"] = "sm_80" if arch == "sm80" else "sm_90a"
        return cls(name, variant, cast("dict[str, Value]", rest), when)


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise VerifyException(f"{name} is {value!r}; it is one of {', '.join(allowed)}")


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
