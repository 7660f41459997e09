"""``polyc.jit``, ``polyc.compile`` and ``polyc.par_compile``: what users call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.rewriting.driver import verify
from polyc.tile.programs import Program as TileProgram
from polyc.tools.errors import as_polyc_error
from polyc.tools.jit.compiled import Compiled
from polyc.tools.jit.function import Jit
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import check_arch, read_text
from polyc.tools.python_file import is_python, module_of
from polyc.tools.registry import make_context

Source = Any
"""A text, a path, a module, a Python function, a tile program or what ``jit`` made."""


def jit(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Decorate a function over values or tiles: see docs/tools/jit.md.

    ``arch`` is that of the tensors' GPU unless given; ``assume`` states facts about sizes
    (``"K mod 8 == 0"``); ``plan`` is a schedule of the user's; ``options`` has ``records`` and
    ``kernels`` as ``polyc.load`` does; ``device="cpu"`` plays back; ``execution_backend`` names a
    backend; ``out_idx`` says which outputs calls allocate, the others following the inputs.

    Raises PolycError at the function's line.
    """
    if (arch := settings.get("arch")) is not None:
        check_arch(arch)
    scope = _scope()

    def decorate(one: Callable[..., Any]) -> Jit:
        if not inspect.isfunction(one):
            raise PolycError("Usage", f"jit decorates a Python function, not {one!r}")
        return Jit(one, scope, **settings)

    return decorate if function is None else decorate(function)


def _scope() -> dict[str, object]:
    """The names around a decorated function, which annotations that are text may use."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "polyc":
        frame = frame.f_back
    return {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)


def compile(
    source: Source,
    arch: str | None = None,
    *,
    name: str | None = None,
    plan: Any = None,
    options: Mapping[str, Any] | None = None,
    constants: Mapping[str, object] | None = None,
    device: str | None = None,
    execution_backend: str | None = None,
    out_idx: Sequence[int] | int | None = None,
) -> Compiled:
    """A program from a text, a path, a module or a function, called like a jitted function.

    A path may be of IR or of a Python file with tile programs; ``name`` picks one of several
    programs.  ``constants`` are a function's keyword arguments of compile time, and all its tensors
    are annotated.  The rest is as for ``jit``.  Raises PolycError, and OSError for a file.
    """
    settings: dict[str, Any] = {
        "plan": plan,
        "options": options,
        "device": device,
        "execution_backend": execution_backend,
        "out_idx": out_idx,
    }
    if arch is not None:
        check_arch(arch)
    if isinstance(source, Jit):
        given = {k: v for k, v in settings.items() if v is not None}
        if not given and arch in (None, source.arch):
            return source.compiled(**(constants or {}))
        kept = {**source._settings, **given}  # pyright: ignore[reportPrivateUsage]
        again = Jit(
            source.function,
            source._scope,  # pyright: ignore[reportPrivateUsage]
            arch=arch or source.arch,
            assume=source.assume,
            name=source.name,
            **kept,
        )
        return again.compiled(**(constants or {}))
    if inspect.isfunction(source):
        return Jit(source, _scope(), arch=arch, name=name, **settings).compiled(**(constants or {}))
    if constants:
        raise PolycError("Usage", "constants are of a Python function, not of a program")
    module, name = _module_of(source, name)
    found = Compiled(module, arch, name=name, **settings)
    if arch is not None and found.arch != arch:
        raise PolycError("ArchMismatch", f"{found.name} is for {found.arch}, not for {arch}")
    own = next(iter(module.body.block.ops), None)
    if arch is not None and isinstance(own, GpuModuleOp) and own.arch.data != arch:
        raise PolycError("ArchMismatch", f"{found.name} is for {own.arch.data}, not for {arch}")
    return found


def _module_of(source: object, name: str | None) -> tuple[ModuleOp, str | None]:
    """The module of a program, and the name that still picks one of it."""
    if isinstance(source, TileProgram):
        return source.module().clone(), None
    if isinstance(source, Operation):
        module = source if isinstance(source, ModuleOp) else ModuleOp([source.clone()])
        verify(module)
        return module, name
    if not isinstance(source, str | Path):
        raise PolycError(
            "Usage",
            f"compile takes a text, a path, a module or a function, not a {type(source).__name__}",
        )
    text = str(source)
    if is_python(source) and "\n" not in text:
        return module_of(text, name), None
    inline = isinstance(source, str) and ("{" in text or "\n" in text)
    place = "text" if inline else text
    try:
        module = parse_text(make_context(), text if inline else read_text(source), place)
    except (ParseError, VerifyException) as error:
        raise as_polyc_error(error, place) from None
    verify(module)
    return module, name


def par_compile(
    sources: Sequence[Source], arch: str | None = None, **settings: Any
) -> list[Compiled]:
    """Several programs, each with all its kernels, compiled at once on this machine's processors.

    Python lowers one at a time, and NVRTC compiles beside it.  Raises what ``compile`` does, of the
    first that has a fault.
    """
    made = [compile(source, arch, **settings) for source in sources]
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(one.warm) for one in made]
        return [one.result() for one in begun]
