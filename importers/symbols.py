"""The symbolic sizes of PyTorch, which are sympy's expressions, as the dialect's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.size_expr import MAX_SIZE, Assumption
from polyc.importers.parameters import symbol_name
from polyc.trace.sizes import SizeLike, size_of


class Symbols:
    """PyTorch's symbolic sizes as the dialect's, by names that are ``named`` or their own."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for own, wanted in named.items():
            self._names[own] = symbol_name(wanted, tuple(self._names.values()))

    def name(self, own: str) -> str:
        """What a symbol of PyTorch's is called."""
        if own not in self._names:
            self._names[own] = symbol_name(own, tuple(self._names.values()))
        return self._names[own]

    def size(self, given: Any) -> SizeLike:
        """A size, number or ``torch.SymInt``.  Refuses what no polynomial of sizes says."""
        if isinstance(given, int):
            return int(given)
        return size_of(self.dim(given.node.expr))

    def dim(self, expr: Any) -> Dim:
        """A sympy expression of sizes.  Raises PolycError ``NonSCoP``."""
        if expr.is_Integer:
            return Dim.const(int(expr))
        if expr.is_Symbol:
            if str(expr).startswith(("u", "zuf")):
                raise PolycError(
                    "NonSCoP", f"the size {expr} is data, and a graph's sizes are those of inputs"
                )
            return Dim.sym(self.name(str(expr)))
        kind = type(expr).__name__
        if kind in ("Add", "Mul"):
            parts = [self.dim(one) for one in expr.args]
            found = parts[0]
            for part in parts[1:]:
                found = found + part if kind == "Add" else found * part
            return found
        if kind == "Pow" and expr.args[1].is_Integer and int(expr.args[1]) >= 1:
            base = found = self.dim(expr.args[0])
            for _ in range(int(expr.args[1]) - 1):
                found = found * base
            return found
        if len(expr.args) == 2 and expr.args[1].is_Integer and int(expr.args[1]) > 0:
            one, by = self.dim(expr.args[0]), int(expr.args[1])
            if kind in ("FloorDiv", "CleanDiv"):
                return one.floordiv(by)
            if kind == "CeilDiv":
                return one.ceildiv(by)
            if kind in ("Mod", "PythonMod"):
                return one.mod(by)
        raise PolycError(
            "NonSCoP", f"the size {expr} is no polynomial of sizes and their quotients"
        )

    def facts(self, ranges: Mapping[Any, Any], tensors: Sequence[Any]) -> list[Assumption]:
        """What is assumed of the symbols in the shapes of ``tensors``, by their ranges."""
        there = {
            symbol for one in tensors for size in one.shape for symbol in self._symbols_of(size)
        }
        found: list[Assumption] = []
        for expr, bounds in ranges.items():
            if not expr.free_symbols or not {str(s) for s in expr.free_symbols} <= there:
                continue
            try:
                size = self.dim(expr)
            except PolycError:
                continue  # a bound of what no shape of the graph's has
            low, high = (_number(bounds.lower), _number(bounds.upper))
            # PyTorch traces with sizes of 2 and more, and says 0: nothing holds of an empty one.
            found.append(Assumption(size - max(1 if low is None else low, 1), ">="))
            if high is not None and high <= MAX_SIZE:
                found.append(Assumption(Dim.const(high) - size, ">="))
        return found

    @staticmethod
    def _symbols_of(size: Any) -> Iterator[str]:
        if not isinstance(size, int):
            yield from (str(symbol) for symbol in size.node.expr.free_symbols)


def _number(bound: Any) -> int | None:
    """A bound that is a number; None for infinite ones."""
    try:
        return int(bound)
    except (AttributeError, TypeError, OverflowError, ValueError):
        return None  # sympy's infinities are of several kinds
