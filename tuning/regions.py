"""Which region a record is of: its text, whatever it and its values are called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from io import StringIO

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.printer import Printer

from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.region import KernelOp
from polyc.dialects.region.graph import FROM
from polyc.rewriting.driver import copied

NAME = "region"
"""What every region is called in its canonical text."""

Size = int | tuple[int, int]
"""A size, or the least and the largest of a range."""

Sizes = Mapping[str, Size]


def alone(kernel: KernelOp) -> KernelOp:
    """A copy of a region whose inputs are from nowhere, and whose outputs are stored."""
    made = copied(kernel)
    made.arg_attrs = ArrayAttr(
        DictionaryAttr({k: v for k, v in attrs.data.items() if k != FROM})
        for attrs in kernel.arg_attrs
    )
    return made


def canonical(kernel: KernelOp) -> str:
    """The text of a region by itself, with no names of its own: alike for what is computed alike.

    The names of tensors and axes stay, as plans speak of them.
    """
    made = alone(kernel)
    made.sym_name = StringAttr(NAME)
    for op in made.walk():
        for value in (*op.results, *(arg for r in op.regions for b in r.blocks for arg in b.args)):
            value.name_hint = None
    out = StringIO()
    Printer(stream=out).print_op(made)
    return out.getvalue().strip()


def digest(text: str) -> str:
    """A short name of a region's canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def facts(sizes: Sizes) -> list[Assumption]:
    """The conditions that symbols have these sizes."""
    found: list[Assumption] = []
    for symbol, size in sizes.items():
        if isinstance(size, int):
            found.append(Assumption(Dim.sym(symbol) - size, "=="))
            continue
        least, most = size
        found.append(Assumption(Dim.sym(symbol) - least, ">="))
        found.append(Assumption(-Dim.sym(symbol) + most, ">="))
    return found


def own_sizes(kernel: KernelOp, sizes: Sizes) -> dict[str, Size]:
    """Of all sizes of a program, those that a region has a symbol for."""
    return {s: sizes[s] for s in kernel.symbol_names if s in sizes}


def sizes_text(sizes: Sizes) -> str:
    """Sizes in a sentence."""
    rows = (
        f"{s}={size}" if isinstance(size, int) else f"{s}={size[0]}..{size[1]}"
        for s, size in sizes.items()
    )
    return ", ".join(rows) or "its constant sizes"


def points_of(sizes: Sizes) -> dict[str, int]:
    """The sizes themselves, where all are known.  Of a range it is the least."""
    return {s: size if isinstance(size, int) else size[0] for s, size in sizes.items()}


def joined(names: Sequence[str]) -> str:
    """Names in a sentence, or ``none``."""
    return ", ".join(names) or "none"
