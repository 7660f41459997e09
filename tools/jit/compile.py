"""``polyc.jit``, ``polyc.compile`` and ``polyc.par_compile``: what users call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.imported import Imported
from polyc.runtime.const_pool import Params
from polyc.runtime.garbage import rarely
from polyc.tools.jit.compiled import Compiled
from polyc.tools.jit.function import Jit
from polyc.tools.jit.written import Written, remembered
from polyc.tools.kept import digest, source
from polyc.tools.load import is_python_file, parsed, text_of

Source = Any
"""A text, a path, a module, a Python function, a tile program, what ``jit`` made, or an imported
model, whose parameters are its own."""


SETTINGS = frozenset(inspect.signature(Jit).parameters) - {"function", "scope"}
"""What ``jit`` may be told by name."""


def jit(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Decorate a function over values or tiles: see docs/tools/jit.md.

    ``arch`` is that of the tensors' GPU unless given; ``assume`` states facts about sizes
    (``"K mod 8 == 0"``); ``plan`` is a schedule of the user's; ``options`` has ``records``,
    ``kernels`` and ``debug`` as ``polyc.load`` does; ``params`` are what ``polyc.parameter`` names
    (docs/tools/parameters.md); ``device="cpu"`` plays back; ``execution_backend`` names a
    backend; ``out_idx`` says which outputs calls allocate, the others following the inputs.

    Raises PolycError at the function's line.
    """
    if wrong := set(settings) - SETTINGS:
        raise PolycError(
            "Usage",
            f"jit has no setting {sorted(wrong)[0]}; there are {', '.join(sorted(SETTINGS))}",
        )
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


@rarely()
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
    params: Any = None,
    donate: bool = False,
) -> Compiled:
    """A program from a text, a path, a module, a function or an imported model, called likewise.

    A path may be of IR or of a Python file with tile programs; ``name`` picks one of several
    programs.  ``constants`` are a function's keyword arguments of compile time, and all its tensors
    are annotated.  ``params`` are what the constant pool keeps, as ``polyc.load`` has it, and calls
    take the other inputs.  With ``donate`` they are the program's: one of which it keeps another
    order alone, or what is made of it, is let go, and an imported model has none afterwards.  The
    rest is as for ``jit``.  Raises PolycError, and OSError for a file.
    """
    settings: dict[str, Any] = {
        "plan": plan,
        "options": options,
        "device": device,
        "execution_backend": execution_backend,
        "out_idx": out_idx,
        "params": params,
    }
    if arch is not None:
        check_arch(arch)
    if isinstance(source, Imported):
        if params is None:
            settings["params"] = source.donated() if donate else source.parameters
        source = source.module
    if donate:
        if settings["params"] is None:
            raise PolycError("Usage", "donate is about params, and none are given; leave it out")
        settings["params"] = Params.of(settings["params"]).donate()
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
    written = _written(source, name)
    found = Compiled(written, arch, **settings)
    own = written.declared.arch
    if arch is not None and own is not None and own != arch:
        raise PolycError("ArchMismatch", f"{found.name} is for {own}, not for {arch}")
    return found


def _written(given: object, name: str | None) -> Written:
    """The program of a text, a path or a module, read only where it was not seen before."""
    if not isinstance(given, str | Path) or is_python_file(given):
        from polyc.tools.jit.declaring import written, written_elsewhere

        return written(*written_elsewhere(given, name))
    data, place = text_of(given)

    def make() -> Written:
        from polyc.tools.jit.declaring import written

        return written(parsed(data, place), name)

    return remembered(source("text", {"text": digest(data), "name": name}), make)


def par_compile(
    sources: Sequence[Source], arch: str | None = None, **settings: Any
) -> list[Compiled]:
    """Several programs, each with all its kernels, compiled at once on this machine's processors.

    Python lowers one at a time, and NVRTC compiles beside it.  Raises what ``compile`` does, of the
    first that has a fault.
    """
    from concurrent.futures import ThreadPoolExecutor

    made = [compile(source, arch, **settings) for source in sources]
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(one.warm) for one in made]
        return [one.result() for one in begun]
