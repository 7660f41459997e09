"""``polyc.load``: a program from text, a file or a module, ready to be called on tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import kept
from polyc.runtime.const_pool import LITTLE, Given, Params
from polyc.runtime.garbage import rarely
from polyc.runtime.origin import Origin
from polyc.runtime.program import Program
from polyc.tools.bound import Halves, bound_program, halves
from polyc.tools.kept import digest
from polyc.tools.kept import program as program_key
from polyc.tools.kept import source as source_key
from polyc.tools.streams import decode, is_python, read_bytes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation


@rarely()
def load(
    source: str | Path | Operation,
    arch: str | None = None,
    name: str | None = None,
    kernels: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    records: str | Path | None = None,
    params: Given = None,
    debug: bool = False,
) -> Program:
    """Compile a program; call its ``run`` on NumPy arrays, PyTorch's or others' tensors.

    ``source`` is a path, the text itself (it has a line break or a brace) or a module: a
    ``gpu.module`` at tile or hardware level, or a ``frontend.graph``, which is compiled for
    ``arch``.  ``name`` picks one of several modules.  The module is not changed.  A Python file is
    executed, and ``name`` picks one of its tile programs.

    ``kernels`` is a Python file of tile programs that say what they replace, and ``sizes`` are
    those of some symbols at which they are compared with plans (docs/tools/kernels-by-hand.md).

    ``records`` is a file that ``polyc tune`` wrote: at sizes that were measured on this GPU, the
    fastest plans run (docs/tools/tuning.md).

    ``params`` are the tensors that the constant pool keeps, by name: the path of a safetensors
    file, several, or a mapping of names to tensors.  Calls then take the other inputs
    (docs/tools/parameters.md).

    ``debug`` makes a debug build of a ``frontend.graph``: ``run`` raises PolycError for an index
    that is outside of its axis where an op has a ``trap`` (docs/semantics.md).

    Raises PolycError with the place in the text, and OSError for a file.
    """
    if debug:
        return _debug_build(source, arch, name, kernels, sizes, records, params)
    found = None if params is None else Params.of(params)

    def program(ir: str, module: Callable[[], Operation]) -> Program:
        options = {"kernels": kernels, "sizes": sizes, "records": records}
        entry = program_key(ir, arch, name, options=options)
        make = lambda: origin(module(), arch, name, kernels, sizes, records)  # noqa: E731
        if found is None or kernels is not None:
            return Program(kept.origin(entry, make), found)

        sparing = found.sparing
        if sparing:
            options = {**options, "sparing": True}

        def entry_of(part: str) -> str | None:
            return program_key(ir, arch, name, options=options, part=part)

        return bound_program(
            found, entry_of, lambda: bound_origins(module(), arch, name, records, sparing)
        )

    if not isinstance(source, str | Path) or is_python_file(source):
        if isinstance(source, str | Path):
            from polyc.tools.python_file import module_of

            source, name = module_of(str(source), name), None
        # What the caller does with the module later is not what an entry's name says.
        given = source.clone()
        return program(_canonical(_verified(given)), lambda: given)
    data, place = text_of(source)
    front = source_key("load", {"text": digest(data)})
    known = (kept.load(front) or {}).get("ir")
    if isinstance(known, str):
        return program(known, lambda: parsed(data, place))
    module = parsed(data, place)
    ir = _canonical(module)
    kept.save(front, {"ir": ir})
    return program(ir, lambda: module)


def _debug_build(
    source: str | Path | Operation,
    arch: str | None,
    name: str | None,
    kernels: str | Path | None,
    sizes: Mapping[str, int] | None,
    records: str | Path | None,
    params: Given,
) -> Program:
    """The program whose graph reports indices too, and that reads these reports."""
    from xdsl.dialects.builtin import ModuleOp

    from polyc.dialects.frontend import GraphOp
    from polyc.passes.frontend.check_indices import FrontendCheckIndices
    from polyc.rewriting.frontend.traps import traps
    from polyc.tools.registry import make_context

    if isinstance(source, str | Path):
        if is_python_file(source):
            raise PolycError("Usage", "debug is about a frontend.graph, not tiles in Python")
        module: Operation = parsed(*text_of(source))
    else:
        module = source.clone()
    graphs = [op for op in module.walk() if isinstance(op, GraphOp)]
    if not isinstance(module, ModuleOp) or not graphs:
        raise PolycError("Usage", "debug is about a frontend.graph; give one", module)
    chosen = [g for g in graphs if name in (None, g.sym_name.data)]
    reports = traps(chosen[0]) if len(chosen) == 1 else []
    FrontendCheckIndices().apply(make_context(), module)
    found = load(module, arch, name, kernels, sizes, records, params)
    found.traps = reports
    return found


def is_python_file(source: str | Path) -> bool:
    """Whether a source is the path of a Python file, which is executed."""
    return is_python(source) and "\n" not in str(source)


def text_of(source: str | Path) -> tuple[bytes, str]:
    """The bytes of a text or of a file, and what errors call it.  Raises OSError for a file."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return source.encode(), "text"
    return read_bytes(source), str(source)


def parsed(data: bytes, place: str) -> ModuleOp:
    """The verified module of a text.  Raises PolycError."""
    from xdsl.utils.exceptions import ParseError, VerifyException

    from polyc.rewriting.driver import verify
    from polyc.rewriting.frontend.parameters import lift_parameters
    from polyc.tools.errors import as_polyc_error
    from polyc.tools.parsing import parse_text
    from polyc.tools.registry import make_context

    try:
        module = parse_text(make_context(), decode(data, place), place)
    except (ParseError, VerifyException) as error:
        raise as_polyc_error(error, place) from None
    verify(module)
    lift_parameters(module)
    return module


def _verified(module: Operation) -> Operation:
    from xdsl.dialects.builtin import ModuleOp

    from polyc.rewriting.driver import verify
    from polyc.rewriting.frontend.parameters import lift_parameters

    verify(module)
    if isinstance(module, ModuleOp):
        lift_parameters(module)
    return module


def _canonical(module: Operation) -> str:
    """The hash of a module's canonical text."""
    from polyc.tools.printing import module_text

    return digest(module_text(module))


def bound_origins(
    module: Operation,
    arch: str | None,
    name: str | None = None,
    records: str | Path | None = None,
    sparing: bool = False,
) -> Halves:
    """What ``origin`` makes, with what parameters alone decide apart, nothing large of that where
    it is ``sparing``.  Raises PolycError."""
    from xdsl.dialects.builtin import ModuleOp

    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp

    if (
        not isinstance(module, ModuleOp)
        or arch is None
        or any(isinstance(op, GpuModuleOp) for op in module.ops)
    ):
        return origin(module, arch, name, records=records), None
    measured = None
    if records is not None:
        from polyc.tuning.applied import Recorded

        measured = Recorded.of_file(records)
    return halves(module, check_arch(arch), name, measured, LITTLE if sparing else None)


def origin(
    module: Operation,
    arch: str | None,
    name: str | None = None,
    kernels: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    records: str | Path | None = None,
) -> Origin:
    """A program from its verified module, as ``load`` lowers it.  Raises PolycError."""
    from xdsl.dialects.builtin import ModuleOp

    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.runtime.lowered import lowered
    from polyc.tools.pipeline import Compilation
    from polyc.tools.registry import make_context

    if isinstance(module, GpuModuleOp) or (
        isinstance(module, ModuleOp) and any(isinstance(op, GpuModuleOp) for op in module.ops)
    ):
        if records is not None:
            raise PolycError("Usage", "records is about a frontend.graph, not tiles", module)
        if kernels is not None:
            raise PolycError("Usage", "kernels is about a frontend.graph, not a gpu.module", module)
        found = lowered(module, name)
        if arch is not None and arch != found.described.arch:
            raise PolycError(
                "ArchMismatch",
                f"{found.described.name} is for {found.described.arch}, not for {arch}",
                module,
            )
        return found
    if not isinstance(module, ModuleOp) or arch is None:
        raise PolycError(
            "Usage", "a program above the gpu layer is a module, compiled for an arch; give both"
        )
    job = Compilation(make_context(), module.clone(), check_arch(arch))
    if records is not None:
        from polyc.tuning.applied import Recorded

        job.records = Recorded.of_file(records)
    if kernels is not None:
        from polyc.tools.kernels.by_hand import with_kernels

        with_kernels(job, str(kernels), sizes or {})
    return lowered(job.run("tiles").module, name, lazily=True)
