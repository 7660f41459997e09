"""What a module declares of its one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.rewriting.driver import verify
from polyc.rewriting.frontend.parameters import lift_parameters
from polyc.tile.programs import Program as TileProgram
from polyc.tools.held import host_signature
from polyc.tools.jit.written import Declared, Returned, Written
from polyc.tools.kept import digest
from polyc.tools.play import Signature
from polyc.tools.printing import module_text
from polyc.tools.python_file import module_of


def written(
    module: ModuleOp,
    name: str | None = None,
    returns: tuple[Returned, Sequence[str]] | None = None,
    captured: Mapping[str, object] | None = None,
) -> Written:
    """The program of a verified module; ``name`` picks one of several.  Raises PolycError."""
    lift_parameters(module)
    op, whole = _program_in(module, name)
    tiles = isinstance(op, GpuModuleOp)
    shape, keys = returns or (None, ())
    declared = Declared(
        digest(module_text(whole)),
        host_signature(op),
        tiles,
        op.arch.data if tiles else None,
        shape,
        tuple(keys),
    )
    return Written(declared, lambda: (op, whole), captured or {})


def written_elsewhere(source: object, name: str | None) -> tuple[ModuleOp, str | None]:
    """The module of an op, a tile program or a Python file, and the name that picks one of it.

    Raises PolycError for anything else.
    """
    if isinstance(source, TileProgram):
        return source.module().clone(), None
    if isinstance(source, Operation):
        # What the caller does with the module later is not what is compiled.
        module = source.clone() if isinstance(source, ModuleOp) else ModuleOp([source.clone()])
        verify(module)
        return module, name
    if not isinstance(source, str | Path):
        raise PolycError(
            "Usage",
            f"compile takes a text, a path, a module or a function, not a {type(source).__name__}",
        )
    return module_of(str(source), name), None


def _program_in(module: ModuleOp, name: str | None) -> tuple[Operation, ModuleOp]:
    """The one program of a module, and a module that has no other."""
    found = [
        op
        for op in module.body.block.ops
        if Signature.of(op) is not None and name in (None, _name_of(op))
    ]
    if len(found) != 1:
        names = ", ".join(map(_name_of, found)) or "none"
        raise PolycError(
            "NothingToRun",
            f"expected one program{'' if name is None else ' ' + name}, found {names}; name one",
            module,
        )
    if len(list(module.body.block.ops)) == 1:
        return found[0], module
    alone = found[0].clone()
    return alone, ModuleOp([alone])


def _name_of(op: Operation) -> str:
    signature = Signature.of(op)
    return "" if signature is None else signature.sym_name.data
