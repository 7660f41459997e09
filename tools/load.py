"""``polyc.load``: a program from text, a file or a module, ready to be called on tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.rewriting.driver import verify
from polyc.runtime.program import Program
from polyc.tools.errors import as_polyc_error
from polyc.tools.garbage import rarely
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, check_arch, read_text
from polyc.tools.python_file import is_python, module_of
from polyc.tools.registry import make_context


@rarely()
def load(
    source: str | Path | Operation,
    arch: str | None = None,
    name: str | None = None,
    kernels: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    records: str | Path | None = None,
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

    Raises PolycError with the place in the text, and OSError for a file.
    """
    ctx = make_context()
    if isinstance(source, Operation):
        module: Operation = source
    elif is_python(source) and "\n" not in str(source):
        module, name = module_of(str(source), name), None
    else:
        is_text = isinstance(source, str) and ("{" in source or "\n" in source)
        text, place = (str(source), "text") if is_text else (read_text(source), str(source))
        try:
            module = parse_text(ctx, text, place)
        except (ParseError, VerifyException) as error:
            raise as_polyc_error(error, place) from None
    verify(module)
    if isinstance(module, GpuModuleOp) or (
        isinstance(module, ModuleOp) and any(isinstance(op, GpuModuleOp) for op in module.ops)
    ):
        if records is not None:
            raise PolycError("Usage", "records is about a frontend.graph, not tiles", module)
        if kernels is not None:
            raise PolycError("Usage", "kernels is about a frontend.graph, not a gpu.module", module)
        program = Program.compile(module, name)
        if arch is not None and arch != program.arch:
            raise PolycError(
                "ArchMismatch", f"{program.name} is for {program.arch}, not for {arch}", module
            )
        return program
    if not isinstance(module, ModuleOp) or arch is None:
        raise PolycError(
            "Usage", "a program above the gpu layer is a module, compiled for an arch; give both"
        )
    job = Compilation(ctx, module.clone(), check_arch(arch))
    if records is not None:
        from polyc.tuning.applied import Recorded

        job.records = Recorded.of_file(records)
    if kernels is not None:
        from polyc.tools.kernels.by_hand import with_kernels

        with_kernels(job, str(kernels), sizes or {})
    return Program.compile(job.run("tiles").module, name, lazily=True)
