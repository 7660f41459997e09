"""Types and attributes of the gpu dialect.

Two levels share them.  Tile level names whole tiles (``!gpu.shared``,
``!gpu.fragment``); hardware level sees a fragment as a register ``memref`` of one
thread and a shared tile as bytes at an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FixedBitwidthType,
    Float32Type,
    IndexType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    VectorType,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Data,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from polyc.dialects.common.dim import Dim, ShapeAttr, parse_shape, shape_text

CTA_THREADS = 1024
"""The most threads of a CTA, on every architecture."""
SM_REGISTERS = 65536
"""Registers of an SM, of four bytes each, on every architecture."""
CACHE_HINTS = ("evict_first", "evict_last")
"""What the L2 cache is told of a load: that the data is not read again, or by many."""


class Space(StrEnum):
    """Where a memref of the hardware level lives."""

    register = "register"
    shared = "shared"


@irdl_attr_definition
class SpaceAttr(EnumAttribute[Space], SpacedOpaqueSyntaxAttribute):
    """Memory space of a memref: ``#gpu<space register>``."""

    name = "gpu.space"


REGISTER = SpaceAttr(Space.register)


def register_memref(size: int, element_type: Attribute) -> MemRefType[Attribute]:
    """The type of ``size`` registers of one thread."""
    return MemRefType(element_type, [size], memory_space=REGISTER)


def register_count(memref: Attribute) -> int | None:
    """How many registers a thread holds in a register memref; None for another type."""
    if not isinstance(memref, MemRefType):
        return None
    typed = cast(MemRefType[Attribute], memref)
    if typed.memory_space != REGISTER or len(typed.get_shape()) != 1:
        return None
    return typed.get_shape()[0]


def element_bytes(element_type: Attribute) -> int:
    """Size of one element in bytes; raises VerifyException for a type without a width."""
    if not isinstance(element_type, FixedBitwidthType):
        raise VerifyException(f"{element_type} has no fixed width")
    return element_type.size


IndexAttr = IntegerAttr[IndexType]
"""An integer property, printed as the bare number."""


INDEX = IndexType()


@lru_cache(maxsize=4096)
def index_attr(value: int) -> IndexAttr:
    """``value`` of type index.  Equal ones are one object, and are verified once."""
    return IntegerAttr(value, INDEX)


@lru_cache(maxsize=256)
def vector_of(element: Attribute, count: int) -> VectorType[Attribute]:
    """The type of ``count`` elements in one register or access.  Equal ones are one object."""
    return VectorType(element, [count])


@irdl_attr_definition
class IntsAttr(Data[tuple[int, ...]]):
    """A short list of integers, such as a tile's sizes; prints as ``<128, 256>``."""

    name = "gpu.ints"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        return tuple(
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_integer)
        )

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(map(str, self.data)) + ">")


def _parse_ints(parser: AttrParser) -> ArrayAttr[IntAttr]:
    return ArrayAttr(
        IntAttr(i)
        for i in parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    )


def _ints_text(values: Iterable[IntAttr]) -> str:
    return "[" + ", ".join(str(v.data) for v in values) + "]"


def _optional_clause(parser: AttrParser, word: str) -> bool:
    """Consume ``, word`` when it is next; a comma is followed by some clause."""
    return parser.parse_optional_keyword(word) is not None


@irdl_attr_definition
class GlobalType(ParametrizedAttribute, TypeAttribute):
    """A dense row-major tensor in global memory: ``!gpu.global<[M, K], f16, align 16>``.

    ``align`` is in bytes and holds for the base address *and* for the length of a row,
    so that every row starts aligned and ends with a whole access: it bounds the width
    of a vector access (S8.1).  0 means no more than the element's own size.
    """

    name = "gpu.global"
    shape: ShapeAttr
    element_type: Attribute
    align: IntAttr

    @staticmethod
    def of(shape: Sequence[Dim | int | str], element_type: Attribute, align: int = 0) -> GlobalType:
        return GlobalType(ShapeAttr.of(shape), element_type, IntAttr(align))

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.shape.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parse_shape(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            align = 0
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("align")
                align = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return (ShapeAttr(shape), element, IntAttr(align))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{shape_text(self.dims)}, ")
        printer.print_attribute(self.element_type)
        printer.print_string(f", align {self.align.data}>" if self.align.data else ">")

    def verify(self) -> None:
        size, align = element_bytes(self.element_type), self.align.data
        if align and (align & (align - 1) or align % size):
            raise VerifyException(
                f"align {align} is not a power of two that holds whole {size}-byte elements"
            )


def parse_tf32(parser: AttrParser) -> IntAttr:
    """``, tf32`` at the end of a map whose loads are rounded."""
    if parser.parse_optional_punctuation(",") is None:
        return IntAttr(0)
    parser.parse_keyword("tf32")
    return IntAttr(1)


def verify_tf32(rounds: bool, element: Attribute) -> None:
    """Check that what is rounded to TF32 is f32."""
    if rounds and not isinstance(element, Float32Type):
        raise VerifyException(f"what a map rounds to TF32 is f32, and its elements are {element}")


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """A TMA descriptor passed to the kernel: ``!gpu.tensor_map<[128, 64], f16, swizzle 128>``.

    ``box`` is the shape of one transfer in the tensor's own (row-major) axis order;
    ``swizzle`` is the span in bytes of the XOR pattern (0, 32, 64 or 128).  A load of f32 by one
    that ``rounds`` brings the nearest numbers of TF32:
    ``!gpu.tensor_map<[128, 32], f32, swizzle 128, tf32>``.
    """

    name = "gpu.tensor_map"
    box: ArrayAttr[IntAttr]
    element_type: Attribute
    swizzle: IntAttr
    tf32: IntAttr

    @staticmethod
    def of(
        box: Sequence[int], element_type: Attribute, swizzle: int, tf32: bool = False
    ) -> TensorMapType:
        sizes = ArrayAttr(map(IntAttr, box))
        return TensorMapType(sizes, element_type, IntAttr(swizzle), IntAttr(int(tf32)))

    @property
    def rounds(self) -> bool:
        """Whether what it loads is rounded to TF32."""
        return self.tf32.data != 0

    def rounding(self) -> TensorMapType:
        """The same, of what is rounded to TF32 on its way."""
        return TensorMapType(self.box, self.element_type, self.swizzle, IntAttr(1))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(i.data for i in self.box)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            box = _parse_ints(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            parser.parse_punctuation(",")
            parser.parse_keyword("swizzle")
            swizzle = parser.parse_integer()
            tf32 = parse_tf32(parser)
        return (box, element, IntAttr(swizzle), tf32)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{_ints_text(self.box)}, ")
        printer.print_attribute(self.element_type)
        printer.print_string(f", swizzle {self.swizzle.data}{', tf32' if self.rounds else ''}>")

    def verify(self) -> None:
        size, swizzle = element_bytes(self.element_type), self.swizzle.data
        verify_tf32(self.rounds, self.element_type)
        if swizzle not in (0, 32, 64, 128):
            raise VerifyException(f"a TMA swizzle is 0, 32, 64 or 128 bytes, not {swizzle}")
        if not self.sizes or any(not 1 <= s <= 256 for s in self.sizes):
            raise VerifyException(f"TMA box sizes are 1 to 256, not {list(self.sizes)}")
        inner = self.sizes[-1] * size
        if inner % 16 or (swizzle and inner > swizzle):
            raise VerifyException(
                f"the inner box is {inner} bytes; it must be a multiple of 16 and "
                f"at most the swizzle's {swizzle}"
            )


@irdl_attr_definition
class SharedType(ParametrizedAttribute, TypeAttribute):
    """A tile in shared memory: ``!gpu.shared<[128, 64], f16, swizzle 128, ring 4>``.

    Without ``swizzle`` the layout is still open.  With ``swizzle S`` (0, 32, 64, 128
    bytes) the tile is cut along its last axis into panels of ``S`` bytes, each panel
    holds its rows one after another, and the 16-byte chunk index of a row is XORed
    with the row's position in the pattern: the hardware's own swizzle, so TMA, wgmma
    and ldmatrix agree on it.  ``swizzle 0`` is plain row-major; ``pad n`` then leaves ``n``
    unused elements behind each row, so that a column's elements lie in different banks.
    ``ring n`` says that there are ``n`` such tiles, one after another, for a pipeline.
    """

    name = "gpu.shared"
    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    swizzle: IntAttr | NoneAttr
    ring: IntAttr
    pad: IntAttr

    @staticmethod
    def of(
        shape: Sequence[int],
        element_type: Attribute,
        swizzle: int | None = None,
        ring: int = 1,
        pad: int = 0,
    ) -> SharedType:
        layout = NoneAttr() if swizzle is None else IntAttr(swizzle)
        sizes = ArrayAttr(map(IntAttr, shape))
        return SharedType(sizes, element_type, layout, IntAttr(ring), IntAttr(pad))

    def like(
        self,
        shape: Sequence[int] | None = None,
        *,
        swizzle: int | None = None,
        ring: int | None = None,
        pad: int | None = None,
    ) -> SharedType:
        """The same tile with other sizes, layout or depth, where these are given."""
        return SharedType.of(
            self.sizes if shape is None else shape,
            self.element_type,
            self.swizzle_bytes if swizzle is None else swizzle,
            self.ring.data if ring is None else ring,
            self.pad.data if pad is None else pad,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(i.data for i in self.shape)

    @property
    def swizzle_bytes(self) -> int | None:
        """The swizzle span in bytes, or None while the layout is open."""
        return None if isinstance(self.swizzle, NoneAttr) else self.swizzle.data

    @property
    def slot_bytes(self) -> int:
        """Bytes of one tile of the ring."""
        return prod(self.sizes[:-1]) * self.pitch * element_bytes(self.element_type)

    @property
    def pitch(self) -> int:
        """Elements from one row of an unswizzled tile to the next."""
        return self.sizes[-1] + self.pad.data

    @property
    def bytes(self) -> int:
        return self.slot_bytes * self.ring.data

    @property
    def panel_columns(self) -> int:
        """Elements of a row inside one panel; the row's pitch where nothing is swizzled."""
        span = self.swizzle_bytes
        return span // element_bytes(self.element_type) if span else self.pitch

    @property
    def panel_bytes(self) -> int:
        return prod(self.sizes[:-1]) * self.panel_columns * element_bytes(self.element_type)

    def offset(self, row: int, column: int) -> int:
        """Byte offset of an element of a matrix tile from the start of its slot.

        The address has bits 4 and up XORed with bits 7 and up, as far as the swizzle spans.
        """
        size, span = element_bytes(self.element_type), self.swizzle_bytes or 0
        panel, inner = divmod(column, self.panel_columns)
        linear = row * self.panel_columns * size + inner * size
        chunks = max(1, span // 16)
        return panel * self.panel_bytes + (linear ^ (linear >> 7) % chunks << 4)

    @property
    def alignment(self) -> int:
        """Bytes that the tile's start is a multiple of: the swizzle pattern repeats there."""
        return {None: 16, 0: 16, 32: 256, 64: 512, 128: 1024}[self.swizzle_bytes]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        swizzle: IntAttr | NoneAttr = NoneAttr()
        ring, pad = 1, 0
        with parser.in_angle_brackets():
            shape = _parse_ints(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            while parser.parse_optional_punctuation(",") is not None:
                if _optional_clause(parser, "swizzle"):
                    swizzle = IntAttr(parser.parse_integer())
                elif _optional_clause(parser, "pad"):
                    pad = parser.parse_integer()
                else:
                    parser.parse_keyword("ring")
                    ring = parser.parse_integer()
        return (shape, element, swizzle, IntAttr(ring), IntAttr(pad))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{_ints_text(self.shape)}, ")
        printer.print_attribute(self.element_type)
        if not isinstance(self.swizzle, NoneAttr):
            printer.print_string(f", swizzle {self.swizzle.data}")
        if self.pad.data:
            printer.print_string(f", pad {self.pad.data}")
        printer.print_string(f", ring {self.ring.data}>" if self.ring.data != 1 else ">")

    def verify(self) -> None:
        size, span = element_bytes(self.element_type), self.swizzle_bytes
        if not self.sizes or min(self.sizes) < 1 or self.ring.data < 1:
            raise VerifyException(
                f"a shared tile has positive sizes and ring depth, not {list(self.sizes)} "
                f"and {self.ring.data}"
            )
        if span not in (None, 0, 32, 64, 128):
            raise VerifyException(f"a swizzle spans 0, 32, 64 or 128 bytes, not {span}")
        if self.pad.data < 0 or (self.pad.data and span != 0):
            raise VerifyException(
                f"a pad of {self.pad.data} elements belongs behind the rows of a tile with swizzle "
                "0; give it that, or drop the pad"
            )
        if span and self.sizes[-1] * size % span:
            raise VerifyException(
                f"rows of {self.sizes[-1] * size} bytes do not split into panels of {span} bytes"
            )
        if span and self.panel_bytes % (8 * span) and self.bytes > self.panel_bytes:
            raise VerifyException(
                f"a swizzle repeats every 8 rows, and panels of {self.panel_bytes // span} rows "
                "after one another do not start where it does; make the rows a multiple of 8"
            )


@irdl_attr_definition
class FragmentLayoutAttr(ParametrizedAttribute):
    """Where each register of each thread stands in a tile.

    ``map`` takes ``(thread, register)`` to the tile's coordinates, ``threads`` counts the
    threads that hold the fragment, ``registers`` the elements each of them holds.
    """

    name = "gpu.fragment_layout"
    threads: IntAttr
    registers: IntAttr
    map: AffineMapAttr

    @staticmethod
    def of(threads: int, registers: int, map: AffineMap) -> FragmentLayoutAttr:
        return FragmentLayoutAttr(IntAttr(threads), IntAttr(registers), AffineMapAttr(map))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("threads")
            threads = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_keyword("registers")
            registers = parser.parse_integer()
            parser.parse_punctuation(",")
            layout = parser.parse_attribute()
            if not isinstance(layout, AffineMapAttr):
                parser.raise_error("a fragment layout ends in an affine_map")
        return (IntAttr(threads), IntAttr(registers), layout)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<threads {self.threads.data}, registers {self.registers.data}, ")
        printer.print_attribute(self.map)
        printer.print_string(">")

    def verify(self) -> None:
        if self.map.data.num_dims != 2 or self.map.data.num_symbols:
            raise VerifyException("a fragment layout maps (thread, register) to coordinates")
        threads, registers = self.threads.data, self.registers.data
        if not (1 <= threads <= CTA_THREADS and 1 <= registers <= SM_REGISTERS):
            raise VerifyException(
                f"a fragment layout has 1 to {CTA_THREADS} threads with 1 to {SM_REGISTERS} "
                f"elements each, not {threads} with {registers}"
            )


@irdl_attr_definition
class FragmentType(ParametrizedAttribute, TypeAttribute):
    """A mutable tile spread over the registers of a group of threads.

    ``!gpu.fragment<[128, 256], f32>`` while the layout is open, with a
    ``#gpu.fragment_layout`` after layout inference (or where an author said it).
    """

    name = "gpu.fragment"
    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    layout: FragmentLayoutAttr | NoneAttr

    @staticmethod
    def of(
        shape: Sequence[int], element_type: Attribute, layout: FragmentLayoutAttr | None = None
    ) -> FragmentType:
        return FragmentType(ArrayAttr(map(IntAttr, shape)), element_type, layout or NoneAttr())

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(i.data for i in self.shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        layout: Attribute = NoneAttr()
        with parser.in_angle_brackets():
            shape = _parse_ints(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            if parser.parse_optional_punctuation(",") is not None:
                layout = parser.parse_attribute()
        return (shape, element, layout)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{_ints_text(self.shape)}, ")
        printer.print_attribute(self.element_type)
        if not isinstance(self.layout, NoneAttr):
            printer.print_string(", ")
            printer.print_attribute(self.layout)
        printer.print_string(">")

    def verify(self) -> None:
        elements = prod(self.sizes)
        if elements > 4 * SM_REGISTERS:
            raise VerifyException(
                f"no registers hold a fragment of {elements} elements: an SM has {SM_REGISTERS} of "
                "four bytes; take smaller tiles"
            )
        if not isinstance(self.layout, NoneAttr):
            results = len(self.layout.map.data.results)
            if results != len(self.sizes):
                raise VerifyException(
                    f"the layout gives {results} coordinates for a fragment of rank "
                    f"{len(self.sizes)}"
                )


TYPES: list[type[Attribute]] = [
    IntsAttr,
    SpaceAttr,
    GlobalType,
    TensorMapType,
    SharedType,
    FragmentLayoutAttr,
    FragmentType,
]
