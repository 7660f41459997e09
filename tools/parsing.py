"""The parser of the tools: every op knows where it stands in the user's file.

xDSL keeps only locations that the text spells out as ``loc(...)``.  ``LocatingParser``
gives each op and argument without one the position of its first character, names the nearest known
op when one is unknown, and turns the refusal of an attribute or type, which xDSL
raises without a place, into an error at the op that holds it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from math import isinf
from typing import Literal, overload

from xdsl.context import Context
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSet
from xdsl.parser import Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRToken,
    MLIRTokenKind,
    StringLiteral,
)

from polyc.affine.expressions import depth
from polyc.dialects.common.diagnostic import Place, PolycError, from_text
from polyc.rewriting.outside import outside_error


class LinearLexer(MLIRLexer):
    """xDSL's lexer with four faults mended.

    Upstream's expression for strings backtracks exponentially on one that is not closed; any
    letter begins an identifier, also one that the printer cannot write; a string that is not
    ASCII, which the printer escapes, reads back as bytes; and a number with an exponent and no
    point, as Python prints it (``1e-05``), is an integer with a name behind it.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')
    _exponent_regex = re.compile(r"[eE][+-]?[0-9]+")
    _no_digit_regex = re.compile(r"\.[0-9]\w*")
    _glued_regexes = {
        "decimal": re.compile(r"[eEX_.$][\w.$]*"),  # an x is a shape's: 4x8xf32
        "hexadecimal": re.compile(r"[.pP][\w.$]*"),
        "float": re.compile(r"[\w.$]+"),
    }

    # Nearly all tokens of a text, after white space and comments; upstream knows the others.
    _common_regex = re.compile(
        r"(?:\s++|//[^\n]*+\n?)*+(?:"
        r"([a-zA-Z_][\w$.]*+)"
        r"|(%(?:[0-9]++(?![\w$.-])|[a-zA-Z_$.-][\w$.-]*+))"
        r"|([0-9]++(?![\w$.]))"
        r"|([:,()}\[\]<>=+/*?|]|\{(?!-\#)|->?))",
        re.ASCII,
    )
    _common_kinds = (
        MLIRTokenKind.BARE_IDENT,
        MLIRTokenKind.PERCENT_IDENT,
        MLIRTokenKind.INTEGER_LIT,
    )

    def lex(self) -> MLIRToken:
        found = self._common_regex.match(self.input.content, self.pos)
        if found is not None and (group := found.lastindex) is not None:
            start, self.pos = found.span(group)
            kind = (
                KIND_BY_PUNCTUATION_SPELLING[found[4]]
                if group == 4
                else self._common_kinds[group - 1]
            )
            return Token(kind, Span(start, self.pos, self.input))
        try:
            return super().lex()
        except ParseError as error:
            at = error.span.start
            if "{first_char}" in error.msg:  # upstream's text, which forgets to fill it in
                reason = f"{self.input.content[at]} begins a name, and no name follows"
                raise ParseError(error.span, reason) from None
            if (found := self._no_digit_regex.match(self.input.content, at)) is None:
                raise
            span = Span(at, found.end(), self.input)
            reason = f"{found[0]} has no digit before its point; write 0{found[0]}"
            raise ParseError(span, reason) from None

    def _lex_number(self, start_pos: int) -> MLIRToken:
        if not self.input.content[start_pos].isascii():
            at = Span(start_pos, self.pos, self.input)
            raise ParseError(at, "a number is written in the digits 0 to 9")
        token = super()._lex_number(start_pos)
        kind = "hexadecimal" if token.span.text.startswith("0x") else "decimal"
        if kind == "decimal" and self._consume_regex(self._exponent_regex) is not None:
            token = self._form_token(MLIRTokenKind.FLOAT_LIT, start_pos)
        if token.kind is MLIRTokenKind.FLOAT_LIT:
            kind = "float"
        if self._consume_regex(self._glued_regexes[kind]) is not None:
            at = Span(start_pos, self.pos, self.input)
            raise ParseError(at, f"{at.text} is no number; write one as 1.5, 1e-05, inf or nan")
        if kind == "float" and isinf(float(token.span.text)):
            reason = f"{token.span.text} is beyond every floating-point type; write inf"
            raise ParseError(token.span, reason)
        return token

    def _lex_bare_identifier(self, start_pos: int) -> MLIRToken:
        if not (letter := self.input.content[self.pos - 1]).isascii():
            at = Span(self.pos - 1, self.pos, self.input)
            raise ParseError(at, f"{letter} cannot begin a name; names are ASCII")
        return super()._lex_bare_identifier(start_pos)

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            try:
                StringLiteral.from_span(token.span).bytes_contents.decode()
            except UnicodeDecodeError:
                return token
            return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)
        return token


OWN = ("frontend", "tiny", "index", "region", "plan", "gpu")
"""Dialects whose ops are asked whether an attribute that they do not know is one that they do."""


def _misspelt(op: Operation) -> str | None:
    """What is wrong with an attribute that is nearly a property of ``op``, or None.

    Others are notes of a user's own, which an op keeps; this one would be left out in silence.
    """
    from difflib import get_close_matches

    definition = getattr(type(op), "get_irdl_definition", None)
    if op.name.partition(".")[0] not in OWN or definition is None:
        return None
    names = [*definition().properties]
    for name in op.attributes:
        if name not in names and (close := get_close_matches(name, names, 1, 0.85)):
            return f"{op.name} has no {name}; did you mean {close[0]}?"
    return None


MAX_DEPTH = 100
"""Operations inside of each other in one affine expression; a sum of n terms has n - 1."""

_PREDICATES = {"arith.cmpi": 10, "arith.cmpf": 16}
"""Upstream does not verify these in generic form, and cannot print other numbers."""


class LocatingParser(Parser):
    """Parses ``text`` and stamps a ``FileLineColLoc`` on every op (lines and columns from 1).

    ``line_offset`` is added to the lines, for a text that is a piece of a file.  Raises
    ParseError for a text that is not well formed and PolycError for one that is refused.
    """

    def __init__(self, ctx: Context, text: str, name: str, line_offset: int = 0) -> None:
        # xDSL's signature has no line offset, so the state is set before parsing starts.
        self._file = StringAttr(name)
        self._name = name
        self._line_offset = line_offset
        starts, at = [0], text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        self._line_starts = starts
        self._maps: dict[str, AffineMap] = {}
        # Empty first: making a state reads the first token, with upstream's lexer.
        super().__init__(ctx, "", name)
        self._resume_from(ParserState(LinearLexer(Input(text, name))))

    def place(self, position: int) -> Place:
        """The file position of a character position in the text."""
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return Place(self._name, line + self._line_offset, column)

    def here(self) -> Place:
        """Where the parser stands."""
        return self.place(self.pos)

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        try:
            op = super().parse_operation()
        except (VerifyException, ValueError, NotImplementedError, OverflowError) as error:
            if (fault := outside_error(error)) is not None:
                raise fault from error
            if isinstance(error, OverflowError):
                reason = f"a number in this op does not fit its type: {error}"
                raise PolycError("InvalidIR", reason, self.place(start)) from error
            # NotImplementedError: xDSL's for an affine expression that multiplies symbols.
            raise from_text(str(error), self.place(start)) from error
        if (count := _PREDICATES.get(op.name)) is not None:
            predicate = op.properties.get("predicate")
            if isinstance(predicate, IntegerAttr) and not 0 <= predicate.value.data < count:
                reason = f"predicate is {predicate.value.data}; {op.name} has 0 to {count - 1}"
                raise PolycError("InvalidIR", reason, self.place(start))
        if op.attributes and (reason := _misspelt(op)) is not None:
            raise PolycError("InvalidIR", reason, self.place(start))
        if isinstance(op.location, UnknownLoc):
            op.location = self._location(start)
        return op

    def parse_affine_map(self) -> AffineMap:
        """A map; the same text in the same file is the same map, and is read once.

        A map ends before a ``>``, and the only one in its text is that of its arrow.
        """
        start, content = self.pos, self.lexer.input.content
        end = content.find(">", content.find("->", start) + 2)
        known = self._maps.get(content[start:end])
        if known is not None:
            self._resume_from(end)
            return known
        found = super().parse_affine_map()
        self._check_depth(found.results, start)
        if self.pos == end:
            self._maps[content[start:end]] = found
        return found

    def parse_affine_set(self) -> AffineSet:
        start = self.pos
        found = super().parse_affine_set()
        self._check_depth([e for row in found.constraints for e in (row.lhs, row.rhs)], start)
        return found

    def _check_depth(self, exprs: Sequence[AffineExpr], start: int) -> None:
        """Refuse expressions that are deeper than what works on them recursively can go.

        Raises PolycError of kind ``NestedTooDeep`` at ``start``.
        """
        if (found := depth(exprs)) > MAX_DEPTH:
            raise PolycError(
                "NestedTooDeep",
                f"an affine expression is {found} operations deep, and {MAX_DEPTH} are taken; name "
                "a part of it by an affine.apply of its own",
                self.place(start),
            )

    @overload
    def parse_optional_argument(
        self, expect_type: Literal[True] = True
    ) -> Parser.Argument | None: ...

    @overload
    def parse_optional_argument(
        self, expect_type: Literal[False]
    ) -> Parser.UnresolvedArgument | None: ...

    @overload
    def parse_optional_argument(
        self, expect_type: bool = True
    ) -> Parser.UnresolvedArgument | Parser.Argument | None: ...

    def parse_optional_argument(
        self, expect_type: bool = True
    ) -> Parser.UnresolvedArgument | Parser.Argument | None:
        """An argument; ``loc(...)`` may follow its type, as the printer writes it."""
        start = self._current_token.span.start
        argument = super().parse_optional_argument(expect_type)
        if isinstance(argument, Parser.Argument):
            argument.location = self.parse_optional_location() or self._location(start)
        return argument

    def _location(self, position: int) -> FileLineColLoc:
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._file, IntAttr(line + self._line_offset), IntAttr(column))

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is not None:
            return found
        # The name is behind the parser: point at it, not at what follows.
        start = max(0, self.lexer.input.content.rfind(name, 0, self.pos))
        self.raise_error(self._unknown_op(name), start, start + len(name))

    def _unknown_op(self, name: str) -> str:
        from difflib import get_close_matches

        dialect, dot, _ = name.partition(".")
        known = [op.name for op in self.ctx.loaded_ops]
        if dot and dialect not in self.ctx.registered_dialect_names:
            names = sorted(self.ctx.registered_dialect_names)
            close = get_close_matches(dialect, names, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            return f"Operation {name} is not registered: there is no dialect {dialect}{hint}"
        if not dot:
            ours = self._parser_state.dialect_stack
            known = [op.partition(".")[2] for op in known if op.partition(".")[0] in ours] + known
        close = get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"Operation {name} is not registered{hint}"

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        try:
            module = super().parse_module(allow_implicit_module)
        except ParseError as error:
            content = self.lexer.input.content
            at_end = error.span.end >= len(content.rstrip())
            if self.forward_ssa_references and "not defined" in error.msg:
                self._at_first_use(error)
            elif error.msg.startswith("Could not parse entire input"):
                empty = not content.strip()
                error.msg = "the text is empty" if empty else "expected an operation"
            elif at_end and content.count("{") > content.count("}"):
                error.msg = f"the text ends inside an operation, is it cut off? {error.msg}"
            raise
        except RecursionError as error:
            raise PolycError(
                "NestedTooDeep",
                "the text is nested deeper than the parser can follow; take a level out",
                self.here(),
            ) from error
        if isinstance(module.location, UnknownLoc):
            module.location = FileLineColLoc(self._file, IntAttr(1 + self._line_offset), IntAttr(1))
        return module

    def _at_first_use(self, error: ParseError) -> None:
        """Upstream tells at the end of the text which values are not defined: point at one."""
        from difflib import get_close_matches

        missing, known = self.forward_ssa_references, dict[str, None]()
        lexer, first = LinearLexer(self.lexer.input), None
        while (token := lexer.lex()).kind is not MLIRTokenKind.EOF:
            if token.kind is MLIRTokenKind.PERCENT_IDENT:
                if token.text[1:] not in missing:
                    known[token.text[1:]] = None
                elif first is None:
                    first = token
        if first is not None:
            error.span = first.span
            if close := get_close_matches(first.text[1:], [*known], 1):
                error.msg += f"; did you mean %{close[0]}?"


def parse_text(
    ctx: Context, text: str, name: str, line_offset: int = 0, implicit_module: bool = True
) -> ModuleOp:
    """The module in ``text``, with locations in file ``name``.

    A dialect that is not known is looked for once among the installed plug-ins.
    """
    for last in (False, True):
        try:
            return LocatingParser(ctx, text, name, line_offset).parse_module(implicit_module)
        except ParseError as error:
            from polyc.tools.registry import load_plugin_dialects

            if last or "is not registered" not in error.msg or not load_plugin_dialects(ctx):
                error.span = replace(error.span, line_offset=line_offset)
                raise
    raise AssertionError
