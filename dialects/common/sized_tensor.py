"""Tensor types with symbolic sizes, and whether two sizes are equal (S2.3).

Sizes are compared by canonical equality first, by isl where floors or assumptions can
matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineSet,
    AffineSymExpr,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import (
    MAX_SIZE,
    Assumption,
    AssumptionsAttr,
    Dim,
    Shape,
    ShapeAttr,
    parse_shape,
    shape_text,
)


class SizedTensorType(ParametrizedAttribute, TypeAttribute, ABC):
    """A tensor type with symbolic sizes, ``!dialect.tensor<[M, K], f16>``."""

    shape: ShapeAttr
    element_type: Attribute

    @property
    def dims(self) -> Shape:
        """The sizes, outermost first."""
        return self.shape.data

    @property
    def rank(self) -> int:
        return len(self.shape.data)

    @classmethod
    @abstractmethod
    def element_types(cls) -> tuple[Attribute, ...]:
        """The element types that the dialect has."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            start = parser.pos
            shape = ShapeAttr(parse_shape(parser))
            if (fault := _size_fault(shape.data)) is not None:
                parser.raise_error(fault, start, parser.pos)
            parser.parse_punctuation(",")
            start = parser.pos
            element = parser.parse_type()
            if (fault := cls._element_fault(element)) is not None:
                parser.raise_error(fault, start, parser.pos)
        return [shape, element]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{shape_text(self.dims)}, ")
        printer.print_attribute(self.element_type)
        printer.print_string(">")

    def verify(self) -> None:
        fault = _size_fault(self.dims) or self._element_fault(self.element_type)
        if fault is not None:
            raise VerifyException(fault)

    @classmethod
    def _element_fault(cls, element: Attribute) -> str | None:
        known = cls.element_types()
        if element in known:
            return None
        return (
            f"{element} is not an element type of {cls.name}; it has {', '.join(map(str, known))}"
        )


def _size_fault(shape: Shape) -> str | None:
    for position, size in enumerate(shape):
        value = size.constant()
        if value is not None and value < 0:
            return (
                f"size {value} of axis {position} in {shape_text(shape)} is negative; "
                "a size is 0 or more"
            )
        if value is not None and value > MAX_SIZE:
            return (
                f"size {value} of axis {position} in {shape_text(shape)} is too large; kernels "
                f"index with 32 bits, sizes up to {MAX_SIZE}"
            )
    return None


def tensor_symbols(types: Iterable[Attribute]) -> tuple[str, ...]:
    """The symbols in the sizes of ``types``, in order of first appearance."""
    found: dict[str, None] = {}
    for t in types:
        if isinstance(t, SizedTensorType):
            for size in t.dims:
                found.update(dict.fromkeys(size.symbols()))
    return tuple(found)


def sizes_equal(
    a: Dim, b: Dim, symbols: Sequence[str], assumptions: Sequence[Assumption] = ()
) -> bool:
    """Whether two sizes are equal for all symbols that satisfy ``assumptions`` (S2.3).

    Polynomials without floors are equal exactly when their canonical forms are, unless
    an assumption relates the symbols; what is left is isl's to decide.  A size that
    multiplies symbols is beyond isl and is compared by its canonical form alone.
    """
    if a == b:
        return True
    difference = a - b
    if difference.constant() is not None:
        return False
    floors = any(not isinstance(atom, str) for mono, _ in difference.terms for atom in mono)
    if not floors and not assumptions:
        return False
    names = tuple(dict.fromkeys((*symbols, *a.symbols(), *b.symbols())))
    left, right = a.as_affine(names), b.as_affine(names)
    if left is None or right is None:
        return False
    from polyc.affine.isl import dims_equal

    return dims_equal(left, right, len(names), symbol_space(names, assumptions))


def symbol_space(symbols: Sequence[str], assumptions: Sequence[Assumption]) -> AffineSet:
    """The symbols' values that can be: every symbol ≥ 0, and the affine assumptions."""
    stated = AssumptionsAttr(tuple(assumptions)).as_affine_set(symbols)
    natural = [
        AffineConstraintExpr(AffineConstraintKind.ge, AffineSymExpr(i), AffineConstantExpr(0))
        for i in range(len(symbols))
    ]
    return AffineSet(0, len(symbols), (*natural, *stated.constraints))
