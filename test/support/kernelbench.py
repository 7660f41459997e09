"""KernelBench's problems: PyTorch modules of one op (level 1) and of some (level 2).

A problem is a file of Python with ``Model``, ``get_inputs`` and ``get_init_inputs``; it is
executed, so that a checkout is one that is trusted.  What comes of a problem is a state of
``STATES``, the worst of its regions': ``tensor cores`` where its products run on these,
``bandwidth`` where it has none and families of movement, rows, scans and the like take it,
``loops`` where a product of matrices or a convolution runs without tensor cores, and ``missing``
with the diagnostic.
"""

from __future__ import annotations

import ast
import types
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.importers.imported import Imported
from polyc.importers.registry import library
from polyc.rewriting.frontend.parameters import lift_parameters
from polyc.rewriting.notes import unsaid
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

STATES = ("tensor cores", "bandwidth", "loops", "missing")

LEVELS = (1, 2)

ARCH = "sm_90a"

MANY = 1 << 16
"""Numbers of a parameter from which on it is left as its memory is, where only its shape counts."""


class Posed(Protocol):
    """What has a module with ``Model``, ``get_inputs`` and ``get_init_inputs``."""

    @property
    def name(self) -> str:
        """What a board calls it."""
        ...

    def module(self, smaller: Callable[[int], int] | None = None) -> Any:
        """The module, with sizes made ``smaller`` where that is given."""
        ...


@dataclass(frozen=True)
class Problem:
    """A problem's file, ``name`` is ``level1/23_Softmax``."""

    level: int
    number: int
    path: Path

    @property
    def name(self) -> str:
        """What the board calls it."""
        return f"level{self.level}/{self.path.stem}"

    def module(self, smaller: Callable[[int], int] | None = None) -> Any:
        """Its module, executed; the sizes at its top made ``smaller`` where that is given."""
        tree = ast.parse(self.path.read_text("utf-8"), str(self.path))
        if smaller is not None:
            shrink = _Shrink(smaller)
            tree.body = [
                shrink.visit_Assign(one) if isinstance(one, ast.Assign) else one
                for one in tree.body
            ]
        module: Any = types.ModuleType(self.path.stem)
        exec(compile(tree, str(self.path), "exec"), module.__dict__)
        return module


def problems(checkout: Path, levels: Sequence[int] = LEVELS) -> list[Problem]:
    """The problems of a checkout of KernelBench, in order."""
    found: list[Problem] = []
    for level in levels:
        for folder in (checkout / "KernelBench", checkout):
            files = list((folder / f"level{level}").glob("*_*.py"))
            if files:
                found += [Problem(level, int(one.name.split("_")[0]), one) for one in files]
                break
    return sorted(found, key=lambda one: (one.level, one.number))


# Problems made small -------------------------------------------------------------------------


def small(size: int) -> int:
    """A smaller size of the same kind: even stays even, and multiples of 8 stay such; equal sizes
    are equal ones."""
    if size <= 12:
        return size
    for step, least in ((8, 16), (4, 12), (2, 10), (1, 9)):
        if size % step == 0:
            return least + size // step % 2 * max(step, 2)
    return size


def fourth(size: int) -> int:
    """A fourth of a large size that has one: products and quotients of sizes stay what they are."""
    return size // 4 if size > 12 and size % 4 == 0 else size


class _Shrink(ast.NodeTransformer):
    """Numbers of a problem's module, and those that its inputs are made of, made small."""

    def __init__(self, smaller: Callable[[int], int]) -> None:
        super().__init__()
        self.smaller = smaller

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self.value(node.value)
        return node

    def value(self, given: ast.expr) -> ast.expr:
        if isinstance(given, ast.Constant) and type(given.value) is int:
            return ast.copy_location(ast.Constant(self.smaller(given.value)), given)
        if isinstance(given, ast.Tuple):
            given.elts = [self.value(one) for one in given.elts]
        if isinstance(given, ast.BinOp):
            # Sizes of products of numbers, such as 8205 * 2.
            try:
                number = eval(compile(ast.Expression(given), "size", "eval"), {})
            except NameError:
                return given  # made of sizes that are small already
            return self.value(ast.copy_location(ast.Constant(number), given))
        return given


def module_of(problem: Posed, smaller: Callable[[int], int] | None = None) -> Any:
    """A problem's module, executed; the sizes at its top made ``smaller`` where that is given."""
    return problem.module(smaller)


# Imports -------------------------------------------------------------------------------------


@contextmanager
def untouched(torch: Any) -> Generator[None]:
    """Large parameters are not filled with random numbers: their shapes are what counts."""
    names = ("kaiming_uniform_", "uniform_", "normal_", "kaiming_normal_", "xavier_uniform_")
    own = {name: getattr(torch.nn.init, name) for name in names}

    def quick(fill: Any) -> Any:
        def filled(tensor: Any, *args: Any, **named: Any) -> Any:
            return tensor if tensor.numel() > MANY else fill(tensor, *args, **named)

        return filled

    for name, fill in own.items():
        setattr(torch.nn.init, name, quick(fill))
    try:
        yield
    finally:
        for name, fill in own.items():
            setattr(torch.nn.init, name, fill)


def tensors_of(torch: Any, inputs: Sequence[Any]) -> list[Any]:
    """What a program takes of a model's inputs: a number is one of its constants."""
    return [x for x in inputs if torch.is_tensor(x)]


def shapes_of(torch: Any, module: Any) -> list[Any]:
    """A problem's inputs with nothing in them: of gigabytes the memory is never touched."""
    fake: Any = library("torch._subclasses.fake_tensor", "torch")
    with fake.FakeTensorMode():
        given = module.get_inputs()
    return [torch.empty(x.shape, dtype=x.dtype) if hasattr(x, "shape") else x for x in given]


@contextmanager
def tf32(torch: Any, permitted: bool = True) -> Generator[None]:
    """PyTorch permits TF32 in products of matrices and in convolutions, or does not."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = permitted
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def imported(model: Any, inputs: Sequence[Any]) -> Imported:
    """A problem's model in eval mode, in TF32 where products may be."""
    torch = library("torch", "torch")
    with torch.no_grad(), tf32(torch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model.eval(), tuple(inputs), strict=False)
        return polyc.from_exported(program, "problem")


def model_of(problem: Posed) -> tuple[Any, list[Any]]:
    """A problem's model in eval mode and its inputs, at its own sizes, with nothing in them."""
    torch = library("torch", "torch")
    module = module_of(problem)
    with torch.no_grad(), untouched(torch):
        return module.Model(*module.get_init_inputs()).eval(), shapes_of(torch, module)


def sized(problem: Posed) -> Imported:
    """A problem at its own sizes, with parameters that are not filled."""
    return imported(*model_of(problem))


# What comes of a problem ----------------------------------------------------------------------


@dataclass
class Outcome:
    """The state of a problem, its regions in a word each, and what there is to say."""

    state: str
    regions: list[str] = field(default_factory=list[str])
    why: str = ""


def _is_product(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a region sums products of two tensors, as a matrix product or a convolution does."""
    sums = (op for op in kernel.body.block.ops if isinstance(op, ReduceOp))
    # What is imported in TF32 says so of its products.
    return plan.mma.data == "fma" or any(op.precision is not None for op in sums)


def _family(kernel: KernelOp, plan: ScheduleOp) -> str:
    if plan.mma.data in ("wgmma", "mma.sync"):
        return f"{plan.pattern} {plan.mma.data}"
    product = " product" if _is_product(kernel, plan) else ""
    return f"{plan.pattern}{product} {plan.variant.data}"


def planned(model: Imported, stage: str = "plan") -> Compilation:
    """A model on its way down for ``ARCH``."""
    module = model.module.clone()
    lift_parameters(module)
    with unsaid():
        return Compilation(make_context(), module, ARCH).run(stage)


def regions(job: Compilation) -> Iterator[tuple[KernelOp, ScheduleOp]]:
    """The regions of a module with plans, each with its first; those of constants left out."""
    plans: dict[str, ScheduleOp] = {}
    for op in job.module.walk():
        if isinstance(op, ScheduleOp):
            plans.setdefault(op.region.string_value(), op)
    for op in job.module.walk():
        if not isinstance(op, KernelOp) or op.sym_name.data not in plans:
            continue
        if not op.inputs or not all(tensor.is_constant for tensor in op.inputs):
            yield op, plans[op.sym_name.data]


def outcome(problem: Posed) -> Outcome:
    """Import a problem at its own sizes, and choose the plans of its regions."""
    try:
        job = planned(sized(problem))
    except PolycError as error:
        return Outcome("missing", [], f"{error.kind}: {error.message}")
    except Exception as error:  # A fault of ours is one line of the board.
        return Outcome("missing", [], f"{type(error).__name__}: {str(error)[:200]}")
    found = [_family(*one) for one in regions(job)]
    if any(" product" in one for one in found):
        state = "loops"
    elif any(one.endswith(("wgmma", "mma.sync")) for one in found):
        state = "tensor cores"
    else:
        state = "bandwidth"
    return Outcome(state, found)


def board(found: Mapping[str, Outcome]) -> dict[str, Any]:
    """Outcomes by problems' names as the board that is kept."""
    rows: list[dict[str, Any]] = []
    for level in LEVELS:
        own = [one for name, one in found.items() if name.startswith(f"level{level}/")]
        rows.append({"level": level, "problems": len(own)})
        rows[-1] |= {state: sum(o.state == state for o in own) for state in STATES}
    return {
        "rows": rows,
        "problems": {
            name: {
                "state": one.state,
                "regions": one.regions,
                **({"why": one.why} if one.why else {}),
            }
            for name, one in found.items()
        },
    }
