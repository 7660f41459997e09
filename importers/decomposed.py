"""Ops without a converter by what they are made of.

What polyc has whole stays whole; of the rest PyTorch often says what it is made of, in its table of
decompositions or by the op's own composite form.  Recurrent layers are written out step by step so.
Of their cells ``cells.py`` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

from polyc.importers.cells import CELLS
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
        again = _applied(program, table)
        if again is program:
            break
        program = again
    return program


def _applied(program: Any, table: Mapping[Any, Decomposition]) -> Any:
    """A program with some ops decomposed: those whose decompositions PyTorch can trace."""
    try:
        return program.run_decompositions(dict(table))
    except Exception:  # Of any kind: a decomposition may write in place, or read what is data.
        if len(table) == 1:
            return program
    for op, how in table.items():
        program = _applied(program, {op: how})
    return program


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
            found[op] = table[op]
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
