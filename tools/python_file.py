"""Python from outside: a file is executed, as a plug-in or for the tile programs that it makes."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from polyc.tools.streams import read_bytes


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
