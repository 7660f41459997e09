"""The syntax of dimension expressions: ``(H - 1) floordiv 2``, ``[M, 2 * K]``, ``K mod 8 == 0``.

xDSL's parsers read it in IR.  ``SizeReader`` reads it alone, for annotations of Python functions
and for what they assume, without importing xDSL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

from polyc.dialects.common.size_expr import Assumption, Dim, Shape

T = TypeVar("T")


class SizeParser(Protocol):
    """What is asked of a parser: a part of xDSL's ``AttrParser``."""

    @property
    def Delimiter(self) -> Any: ...
    @property
    def pos(self) -> int: ...
    def parse_optional_punctuation(self, punctuation: Any, /) -> str | None: ...
    def parse_optional_keyword(self, keyword: str, /) -> str | None: ...
    def parse_optional_integer(self, *, allow_boolean: bool) -> int | None: ...
    def parse_optional_identifier(self) -> str | None: ...
    def parse_punctuation(self, punctuation: Any, /) -> str: ...
    def parse_comma_separated_list(self, delimiter: Any, parse: Callable[[], T], /) -> list[T]: ...
    @property
    def raise_error(self) -> Callable[..., NoReturn]: ...


MAX_NESTING = 64
"""Parentheses and quotients inside of each other in one size expression."""


def parse_dim(parser: SizeParser, depth: int = 0) -> Dim:
    """Parse ``term (('+' | '-') term)*``, inside of ``depth`` parentheses and quotients.

    A term is a product of factors; ``floordiv``, ``ceildiv`` and ``mod`` stand at the
    level of ``*`` and associate to the left, as in affine expressions.
    """
    terms = [*_parse_term(parser, depth).terms]
    while True:
        if parser.parse_optional_punctuation("+") is not None:
            terms += _parse_term(parser, depth).terms
        elif parser.parse_optional_punctuation("-") is not None:
            terms += (-_parse_term(parser, depth)).terms
        else:
            return Dim.of_terms(terms)


def parse_constant(parser: SizeParser, what: str) -> int:
    """Parse an integer, ``what`` saying of what: "an axis of a permute".

    An expression of symbols is ``NotConstant``: of a stride or a dilation no index map is affine
    (S3.3), and an axis is no size.
    """
    start = parser.pos
    found = parse_dim(parser)
    if (value := found.constant()) is None:
        affine = any(word in what for word in ("stride", "dilation"))
        parser.raise_error(
            f"NotConstant: {found} is symbolic, and {what} is a number"
            + (": a symbolic one is not affine" if affine else ""),
            start,
            parser.pos,
        )
    return value


def _deeper(parser: SizeParser, depth: int) -> int:
    """One level more; a ParseError at the parser's place where that is too many."""
    if depth >= MAX_NESTING:
        parser.raise_error(
            f"NestedTooDeep: a size expression has more than {MAX_NESTING} parentheses and "
            "quotients inside of each other; write it flat, or give a part a symbol of its own"
        )
    return depth + 1


def _parse_term(parser: SizeParser, depth: int) -> Dim:
    value = _parse_factor(parser, depth)
    while True:
        if parser.parse_optional_punctuation("*") is not None:
            value = value * _parse_factor(parser, depth)
            continue
        for word in ("floordiv", "ceildiv", "mod"):
            if parser.parse_optional_keyword(word) is not None:
                depth = _deeper(parser, depth)
                pos = parser.pos
                factor = _parse_factor(parser, depth)
                den = factor.constant()
                reason = f"the right side of {word} is a positive integer constant"
                if den is None:
                    parser.raise_error(
                        f"NonSCoP: {reason}; to divide by {factor} is not affine", pos
                    )
                if den <= 0:
                    parser.raise_error(reason, pos)
                if word == "floordiv":
                    value = value.floordiv(den)
                else:
                    value = value.ceildiv(den) if word == "ceildiv" else value.mod(den)
                break
        else:
            return value


def _parse_factor(parser: SizeParser, depth: int) -> Dim:
    if parser.parse_optional_punctuation("-") is not None:
        return -_parse_factor(parser, _deeper(parser, depth))
    if parser.parse_optional_punctuation("(") is not None:
        value = parse_dim(parser, _deeper(parser, depth))
        parser.parse_punctuation(")")
        return value
    if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return Dim.const(number)
    if (name := parser.parse_optional_identifier()) is not None:
        return Dim.sym(name)
    parser.raise_error("expected a size: an integer, a symbol or an expression of them")


def parse_shape(parser: SizeParser) -> Shape:
    """Parse ``[dim, dim, …]``."""
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_dim(parser))
    )


def parse_assumption(parser: SizeParser) -> Assumption:
    """Parse ``dim (== | >= | <= | > | <) dim``."""
    lhs = parse_dim(parser)
    if parser.parse_optional_punctuation("=") is not None:
        parser.parse_punctuation("=")
        return Assumption(lhs - parse_dim(parser), "==")
    if parser.parse_optional_punctuation(">") is not None:
        strict = parser.parse_optional_punctuation("=") is None
        return Assumption(lhs - parse_dim(parser) - int(strict), ">=")
    if parser.parse_optional_punctuation("<") is not None:
        strict = parser.parse_optional_punctuation("=") is None
        return Assumption(parse_dim(parser) - lhs - int(strict), ">=")
    parser.raise_error("expected ==, >=, <=, > or < in an assumption")


def parse_assumptions(parser: SizeParser) -> tuple[Assumption, ...]:
    """Parse ``(assumption, …)``."""
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_assumption(parser))
    )


class SizeReader:
    """A parser of such a text alone.  Raises ValueError with a sentence."""

    class Delimiter:
        """Brackets of a list, as xDSL names them."""

        PAREN, SQUARE = "()", "[]"

    _TOKEN = re.compile(r"[A-Za-z_][\w$.]*|0x[0-9A-Fa-f]+|\d+|\S")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(found[0], found.start()) for found in self._TOKEN.finditer(text)]
        self._at = 0

    @property
    def pos(self) -> int:
        """Where the next token begins."""
        return self._tokens[self._at][1] if self._at < len(self._tokens) else len(self._text)

    def _take(self, fits: Callable[[str], bool]) -> str | None:
        if self._at == len(self._tokens) or not fits(self._tokens[self._at][0]):
            return None
        self._at += 1
        return self._tokens[self._at - 1][0]

    def parse_optional_punctuation(self, punctuation: str, /) -> str | None:
        return self._take(punctuation.__eq__)

    def parse_optional_keyword(self, keyword: str, /) -> str | None:
        return self._take(keyword.__eq__)

    def parse_optional_integer(self, *, allow_boolean: bool) -> int | None:
        found = self._take(lambda token: token[0].isdecimal())
        return None if found is None else int(found, 0 if found.startswith("0x") else 10)

    def parse_optional_identifier(self) -> str | None:
        return self._take(lambda token: token[0].isalpha() or token[0] == "_")

    def parse_punctuation(self, punctuation: str, /) -> str:
        if (found := self.parse_optional_punctuation(punctuation)) is None:
            self.raise_error(f"{punctuation} expected")
        return found

    def parse_comma_separated_list(self, delimiter: str, parse: Callable[[], T], /) -> list[T]:
        self.parse_punctuation(delimiter[0])
        if self.parse_optional_punctuation(delimiter[1]) is not None:
            return []
        found = [parse()]
        while self.parse_optional_punctuation(",") is not None:
            found.append(parse())
        self.parse_punctuation(delimiter[1])
        return found

    def raise_error(
        self, msg: str, at_position: int | None = None, end_position: int | None = None, /
    ) -> NoReturn:
        raise ValueError(msg)

    def end(self) -> None:
        """Refuse what is left."""
        if self._at < len(self._tokens):
            self.raise_error(f"{self._tokens[self._at][0]} is left over")
