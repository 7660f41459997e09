"""Python from outside: a file is executed, as a plug-in or for the tile programs that it makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING

from polyc.dialects.common.diagnostic import Place, PolycError, place_of
from polyc.rewriting.outside import error_text, place_in
from polyc.tools.streams import read_bytes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from polyc.tile.programs import Program


def execute(path: str) -> ModuleType:
    """The module that the Python file ``path`` makes, executed once.

    It is named as the file, and its folder is looked in for what it imports; it is not
    ``__main__``.  What it prints goes to stderr, as stdout holds the output of polyc.  Raises what
    it raises, SyntaxError, and OSError that names it.
    """
    origin = os.path.abspath(path)
    name = os.path.basename(path).removesuffix(".py")
    there = sys.modules.get(name)
    if there is not None:
        if getattr(there, "__file__", None) == origin:
            return there
        name = f"polyc_file_{name}"
    code = compile(read_bytes(path), path, "exec", dont_inherit=True)
    spec = spec_from_file_location(name, origin)
    assert spec is not None
    module = module_from_spec(spec)
    folder = os.path.dirname(origin)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):
            exec(code, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        # What polyc imports later is not to be found beside the file.
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
    return module


def module_of(path: str, name: str | None = None) -> ModuleOp:
    """The module of a tile program that the Python file ``path`` makes at its top level.

    ``name`` chooses among several, as the file or as the program calls it.  Raises PolycError: what
    the file's Python raises is ``PythonFailed`` at its own line; ``NothingToRun`` where no program
    is there, or several and none is chosen.
    """
    with failing(path):
        # A copy: the program keeps its module, and a pass changes what it is given.
        return _chosen(path, vars(execute(path)), name).module().clone()


@contextmanager
def failing(path: str) -> Generator[None]:
    """Within it what the Python of the file ``path`` raises is ``PythonFailed`` at its own line.

    A PolycError stays what it is, and so does an OSError about the file itself.
    """
    try:
        yield
    except PolycError:
        raise
    except (Exception, SystemExit) as error:
        place = place_in(error)
        if isinstance(error, OSError) and place is None:
            raise  # the file itself is not there
        raise PolycError("PythonFailed", error_text(error), place or Place(path)) from error


def _chosen(path: str, scope: Mapping[str, object], name: str | None) -> Program:
    from polyc.tile.programs import Program

    found = {key: value for key, value in scope.items() if isinstance(value, Program)}
    # What a file imports is not meant where it has programs of its own.
    own = {k: p for k, p in found.items() if _file(p) == path} or found
    if name is not None:
        named = [p for k, p in found.items() if name in (k, p.name)]
        if len({id(p) for p in named}) == 1:
            return named[0]
    elif len({id(p) for p in own.values()}) == 1:
        return next(iter(own.values()))
    listed = ", ".join(own) or "none"
    if name is not None:
        reason = f"has no one program {name!r} at its top level; it has {listed}"
    elif own:
        reason = f"has the programs {listed}; choose one with --program"
    else:
        reason = "has no program at its top level; decorate a function there with @T.program"
    raise PolycError("NothingToRun", f"{path} {reason}", Place(path))


def _file(program: Program) -> str | None:
    place = place_of(program.location)
    return None if place is None else place.file
