"""The pipeline as a library: a pass at a time, verified and timed."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from polyc.dialects.diagnostic import PolycError
from polyc.passes.driver import verify


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
    if check:
        try:
            verify(module)
        except PolycError as error:
            error.layer = instance.name
            error.message = f"after {instance.name}: {error.message}"
            raise
