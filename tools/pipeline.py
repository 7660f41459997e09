"""The pipeline as a library: text in, a module at each layer, CUDA C out.

``polyc-opt`` runs single passes through ``run_pass``; ``polyc`` runs the stages of
``Compilation``.  A stage is named after the layer that it ends in.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from polyc.cost.device import Device, modelled_on
from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.pipeline import STAGES, build
from polyc.rewriting.driver import verify
from polyc.rewriting.frontend.parameters import lift_parameters
from polyc.rewriting.outside import left_broken, outside_error
from polyc.runtime.garbage import rarely
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.python_file import module_of
from polyc.tools.registry import make_context
from polyc.tools.steps import Steps, quiet
from polyc.tools.streams import is_python, read_text

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.tuning.applied import Recorded


def run_pass(ctx: Context, instance: ModulePass, module: ModuleOp, check: bool = True) -> None:
    """Apply ``instance`` to ``module`` and verify the result.

    Raises PolycError that names the pass in its ``layer``.
    """
    try:
        instance.apply(ctx, module)
    except PolycError as error:
        error.layer = error.layer or instance.name
        raise
    except DiagnosticException as error:
        raise PolycError("PassFailed", f"{instance.name}: {error}", module) from error
    except (Exception, SystemExit) as error:
        if (fault := outside_error(error, f"pass {instance.name}")) is None:
            raise
        fault.layer = instance.name
        raise fault from error
    if check:
        try:
            verify(module)
        except PolycError as error:
            error.layer = instance.name
            error.message = f"after {instance.name}: {error.message}"
            raise
        except Exception as error:
            if (fault := left_broken(instance, error)) is None:
                raise
            raise fault from error


def read_module(ctx: Context, path: str | Path, program: str | None = None) -> ModuleOp:
    """The module in a file: the text's, or that of a tile program where the file is Python.

    Raises PolycError and OSError; a Python file is executed.
    """
    if is_python(path):
        return module_of(str(path), program)
    if program is not None:
        raise PolycError("Usage", f"--program {program} is for a Python file, and {path} is text")
    return parse_text(ctx, read_text(path), str(path))


def add_file_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """The input file of a command, and the choice of a program in it."""
    parser.add_argument(
        "file",
        help=f"{what}; or a Python file (.py) with a tile program, which is executed: "
        "run none that you do not trust",
    )
    parser.add_argument(
        "--program", metavar="NAME", help="the tile program, when a Python file has several"
    )


@dataclass
class Compilation:
    """One module on its way down for one architecture.

    ``module`` is at the layer of the last stage; ``kept`` has clones of the layers that
    ``keep`` names.  ``plan`` is a JSON file with fields of the user's own for ``plan-select``.
    ``records`` are measured plans that come before those that polyc chooses, and ``device`` is the
    chip that kernels are modelled on.
    ``after`` is called with the module and the pass's name after every pass; what changes the
    module there verifies it.  Modules are verified after every stage, with ``check_each`` after
    every pass, as ``polyc-opt`` does.
    """

    ctx: Context
    module: ModuleOp
    arch: str
    plan: str | None = None
    records: Recorded | None = None
    device: Device | None = None
    keep: Collection[str] = ()
    steps: Steps = field(default_factory=quiet)
    after: Callable[[ModuleOp, str], None] | None = None
    check_each: bool = False
    kept: dict[str, ModuleOp] = field(default_factory=dict[str, ModuleOp])

    @staticmethod
    def of_file(
        path: str | Path, arch: str, steps: Steps | None = None, program: str | None = None
    ) -> Compilation:
        """Parse and verify ``path``, or execute it for ``program`` where it is Python."""
        steps = steps or quiet()
        check_arch(arch)
        with steps.step("execute" if is_python(path) else "parse"):
            ctx = make_context()
            module = read_module(ctx, path, program)
            verify(module)
            lift_parameters(module)
        return Compilation(ctx, module, arch, steps=steps)

    def fresh(self, arch: str, steps: Steps | None = None) -> Compilation:
        """The module as it is now, on a way of its own for ``arch``."""
        return Compilation(self.ctx, self.module.clone(), check_arch(arch), steps=steps or quiet())

    @rarely()
    def run(self, until: str = "gpu") -> Compilation:
        """Run the stages up to and with ``until``; each one is a step."""
        self._keep("frontend")
        for stage, names in STAGES.items():
            with self.steps.step(f"to {stage}") as step:
                for number, name in enumerate(names, 1):
                    check = self.check_each or number == len(names)
                    with modelled_on(self.arch, self.device):
                        run_pass(self.ctx, build(name, self.arch, self.plan), self.module, check)
                    if name == "plan-select" and self.records is not None:
                        self.records.put_first(self.module, self.arch)
                    if self.after is not None:
                        self.after(self.module, name)
                if len(names) > 1:
                    step.note = f"{len(names)} passes"
            self._keep(stage)
            if stage == until:
                break
        return self

    def _keep(self, stage: str) -> None:
        if stage in self.keep:
            self.kept[stage] = self.module.clone()

    @rarely()
    def cuda(self) -> str:
        """The CUDA C of the module, which is at the hardware level of ``gpu``."""
        from polyc.lowering.gpu_to_cuda import print_cuda

        out = StringIO()
        with self.steps.step("print CUDA C"):
            print_cuda(self.module, out)
        return out.getvalue()


def graphs(module: ModuleOp) -> Iterator[SignatureOp]:
    """The graphs of a module at the frontend or tiny layer."""
    from polyc.dialects.common.signature import SignatureOp

    for op in module.ops:
        if isinstance(op, SignatureOp):
            yield op


# Dumps ---------------------------------------------------------------------------------

DUMPS: Mapping[str, tuple[str, str]] = {
    "frontend": ("frontend", "frontend.mlir"),
    "tiny": ("tiny", "tiny.mlir"),
    "indexbook": ("index", "indexbook.json"),
    "poly_view": ("index", "poly_view.json"),
    "region": ("region", "region.mlir"),
    "plan": ("plan", "plan.json"),
    "gpu": ("gpu", "gpu.mlir"),
    "cu": ("cu", "kernel.cu"),
}
"""What ``--dump`` names (S13.1): the stage that it is taken after, and the file's name."""


def dump_text(name: str, module: ModuleOp, cuda: str = "") -> str:
    """The text of a dump: IR for layers that are IR, JSON with the specification's names."""
    if name == "cu":
        return cuda
    if not DUMPS[name][1].endswith(".json"):
        return module_text(module)
    data: list[object] = []
    if name == "plan":
        from polyc.dialects.plan import ScheduleOp

        data = [op.to_json() for op in module.walk() if isinstance(op, ScheduleOp)]
    else:
        from polyc.poly.indexbook import indexbook_json
        from polyc.poly.view import poly_view_json

        make = indexbook_json if name == "indexbook" else poly_view_json
        data = [make(graph) for graph in graphs(module)]
    whole = data if name == "plan" or len(data) != 1 else data[0]
    return json.dumps(whole, indent=2) + "\n"
