"""Programs that keep their parameters: what these alone decide is made by a second one, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import kept
from polyc.runtime.const_pool import Params
from polyc.runtime.origin import Origin
from polyc.runtime.program import Program
from polyc.tools.kept import digest

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from polyc.dialects.tiny import GraphOp
    from polyc.tools.pipeline import Compilation
    from polyc.tuning.applied import Recorded

Halves = tuple[Origin, Origin | None]
"""A program, and the one that makes constants for it, where there is something to make."""

PARTS = ("bound", "made")
"""What the entries of the two on disk are told apart by."""


def bound_program(
    params: Params, entry: Callable[[str], str | None], lower: Callable[[], Halves]
) -> Program:
    """A program that keeps ``params``; ``entry`` names its parts on disk.

    Raises what ``lower`` does, and PolycError ``BadParams``.
    """
    halves = cache(lower)
    names = [entry(part) for part in PARTS]
    origin = kept.origin(names[0], lambda: halves()[0])
    if not any(origin.described.made):
        return Program(origin, params)

    def second() -> Origin:
        found = halves()[1]
        assert found is not None
        return found

    made = kept.origin(names[1], second)
    before = Program(made, key=names[1] or digest(str(made.module())))
    return Program(origin, params, before)


def split(
    module: ModuleOp, arch: str, name: str | None = None, most: int | None = None
) -> tuple[Compilation, GraphOp, GraphOp | None]:
    """A frontend graph's tiny graph, and the one that makes constants for it of parameters alone.

    ``most`` bounds the bytes of such a constant; both graphs stand in the module of the result.
    Raises PolycError.
    """
    from polyc.dialects.tiny import GraphOp
    from polyc.passes.tiny.split_constants import TinySplitConstants
    from polyc.tools.pipeline import Compilation, run_pass
    from polyc.tools.registry import make_context

    job = Compilation(make_context(), module.clone(), check_arch(arch))
    job.run("tiny")
    before = [op for op in job.module.ops if isinstance(op, GraphOp)]
    run_pass(job.ctx, TinySplitConstants(most), job.module)
    graphs = [op for op in job.module.ops if isinstance(op, GraphOp)]
    wanted = [op.sym_name.data for op in before if name in (None, op.sym_name.data)]
    if len(wanted) != 1:
        raise PolycError(
            "NothingToRun",
            f"expected one graph, found {', '.join(wanted) or 'none'}; name one",
            module,
        )
    (main,) = (op for op in graphs if op.sym_name.data == wanted[0])
    made = {spec.made.rpartition(".")[0] for spec in main.inputs if spec.made is not None}
    others = [op for op in graphs if op.sym_name.data in made]
    return job, main, others[0] if others else None


def halves(
    module: ModuleOp,
    arch: str,
    name: str | None = None,
    records: Recorded | None = None,
    most: int | None = None,
) -> Halves:
    """A frontend graph's program, and the one that makes constants of parameters alone.

    ``most`` bounds the bytes of such a constant.  Raises PolycError.
    """
    from xdsl.dialects.builtin import ModuleOp

    from polyc.runtime.lowered import lowered
    from polyc.tools.pipeline import Compilation

    job, main, other = split(module, arch, name, most)

    def program(graph: GraphOp) -> Origin:
        part = Compilation(job.ctx, ModuleOp([graph.clone()]), job.arch)
        part.records = records
        return lowered(part.run("tiles").module, lazily=True)

    return program(main), None if other is None else program(other)
