"""Ops without a converter by what they are made of.

What polyc has whole stays whole; of the rest PyTorch often says what it is made of, in its table of
decompositions or by the op's own composite form.  Recurrent layers are written out step by step so.
Of their cells ``cells.py`` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

from polyc.importers.cells import CELLS, LAYERS, in_layers
from polyc.importers.registry import converter_of, library

SOURCE = "torch"

MOST = 4
"""Times that what comes of a decomposition is decomposed once more."""

Decomposition = Callable[..., Any]


def decomposed(program: Any, refused: Collection[str] = ()) -> Any:
    """An exported program in which ops without a converter, and those whose names are ``refused``,
    are what PyTorch decomposes them into, as far as it does."""
    for _ in range(MOST):
        found = {one.target for one in _calls(program.graph_module)}
        table = decompositions(one for one in found if not converted(one) or str(one) in refused)
        if not table:
            break
        ours = {op: how for op, how in table.items() if str(op) in CELLS or str(op) in LAYERS}
        again = _applied(program, ours, ours)
        again = _applied(again, {op: how for op, how in table.items() if op not in ours})
        if again is program:
            break
        program = again
    return program


def _applied(program: Any, table: Mapping[Any, Decomposition], ours: Collection[Any] = ()) -> Any:
    """A program with some ops decomposed: those whose decompositions PyTorch can trace, and that
    change the shape and type of no result; what is ``ours`` says better than PyTorch what an op
    gives."""
    if not table:
        return program
    with suppress(Exception):  # Of any kind: one may write in place, or read what is data.
        made = program.run_decompositions(dict(table))
        if all(op in ours for op in table) or _alike(_results(made), _results(program)):
            return made
    if len(table) > 1:
        for op, how in table.items():
            program = _applied(program, {op: how}, ours)
    return program


def _results(program: Any) -> list[Any]:
    """What stands for the results of a program, as PyTorch traced it."""
    end = next(node for node in program.graph.nodes if node.op == "output")
    return [getattr(node, "meta", {}).get("val") for node in end.args[0]]


def _alike(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether tensors have the types and sizes of others; a size that is a symbol is any."""

    def equal(one: Any, other: Any) -> bool:
        if not (hasattr(one, "shape") and hasattr(other, "shape")):
            return hasattr(one, "shape") == hasattr(other, "shape")
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            return False
        sizes = zip(one.shape, other.shape, strict=True)
        return all(a == b for a, b in sizes if isinstance(a, int) and isinstance(b, int))

    return len(found) == len(wanted) and all(map(equal, found, wanted))


def every_decomposition() -> dict[Any, Decomposition]:
    """The decompositions of PyTorch's core table, and ours, of ops that have no converter."""
    table: Any = import_module("torch._decomp").core_aten_decompositions()
    ops: Any = library("torch", "torch").ops
    ours = {attrgetter(name)(ops): how for name, how in CELLS.items()}
    return {op: how for op, how in {**table, **ours}.items() if not converted(op)}


def decompositions(ops: Iterable[Any]) -> dict[Any, Decomposition]:
    """What ops are decomposed by, of those that we or PyTorch know it of."""
    torch = library("torch", "torch")
    table: Any = import_module("torch._decomp").decomposition_table
    found: dict[Any, Decomposition] = {}
    for op in sorted(ops, key=str):
        if not isinstance(op, torch._ops.OpOverload):
            continue
        composite = torch._C.DispatchKey.CompositeImplicitAutograd
        if str(op) in CELLS:
            found[op] = CELLS[str(op)]
        elif op in table:
            found[op] = in_layers(str(op), table[op])
        elif composite in op.py_kernels:
            found[op] = op.py_kernels[composite]
        elif op.has_kernel_for_dispatch_key(composite):
            found[op] = partial(op._op_dk, composite)
    return found


def converted(op: Any) -> bool:
    """Whether an op has a converter."""
    name = str(op)
    return converter_of(SOURCE, name, name.rpartition(".")[0]) is not None


def _calls(module: Any) -> list[Any]:
    return [node for node in module.graph.nodes if node.op == "call_function"]
