"""What the signatures of ``region.kernel`` and ``region.graph`` share: text and rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import AssumptionsAttr, Shape, parse_assumptions


def derived_symbols(shapes: Iterable[Shape]) -> tuple[str, ...]:
    """The symbols of a signature, in order of first appearance."""
    found: dict[str, None] = {}
    for shape in shapes:
        for dim in shape:
            found.update(dict.fromkeys(dim.symbols()))
    return tuple(found)


def print_dict(printer: Printer, data: DictionaryAttr) -> None:
    """The attributes of an input or output, where it has any."""
    if data.data:
        printer.print_string(" ")
        printer.print_attr_dict(data.data)


def print_symbols(
    printer: Printer, symbols: Sequence[str], derived: Sequence[str], facts: AssumptionsAttr
) -> None:
    """``symbols [..]`` where they are not those that the shapes derive, and ``assuming (..)``."""
    if symbols != derived:
        printer.print_string(f"\n    symbols [{', '.join(symbols)}]")
    if facts.data:
        printer.print_string(f"\n    assuming {facts.text()}")


def parse_symbols(parser: Parser) -> tuple[list[str] | None, AssumptionsAttr | None]:
    """What ``print_symbols`` printed; None for what is not there."""
    symbols: list[str] | None = None
    if parser.parse_optional_keyword("symbols") is not None:
        symbols = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_identifier
        )
    facts: AssumptionsAttr | None = None
    if parser.parse_optional_keyword("assuming") is not None:
        facts = AssumptionsAttr(parse_assumptions(parser))
    return symbols, facts


def check_signature(
    owner: str,
    lists: Mapping[str, tuple[int, Sequence[Sized]]],
    names: Sequence[str],
    symbols: Sequence[str],
    derived: Sequence[str],
) -> None:
    """The rules of every signature; raises VerifyException.

    ``owner`` is "kernel" or "graph".  ``lists`` has, for "inputs" and "outputs", their number
    and the lists with an entry for each of them.
    """
    for what, (count, beside) in lists.items():
        for found in beside:
            if len(found) != count:
                raise VerifyException(
                    f"the {owner} has {count} {what} and a list of {len(found)} beside them; "
                    "give one entry each"
                )
    for name in names:
        if names.count(name) > 1:
            raise VerifyException(
                f"the name {name} is given to two tensors of the signature; rename one"
            )
    missing = [s for s in derived if s not in symbols]
    if missing:
        raise VerifyException(
            f"the signature uses {', '.join(missing)}, which the {owner}'s symbols "
            f"[{', '.join(symbols)}] lack"
        )
