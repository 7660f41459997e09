"""Imports go one way: between rooms, between families, and never around in a circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from polyc.test.support.root import ROOT

BELOW: Mapping[str, Sequence[str]] = {
    "affine": (),
    "dialects": ("affine",),
    "poly": ("affine", "dialects"),
    "cost": ("affine", "dialects", "poly"),
    "rewriting": ("affine", "dialects", "poly"),
    "families": ("affine", "dialects", "poly", "cost", "rewriting"),
    "passes": ("affine", "dialects", "poly", "cost", "rewriting", "families"),
    "lowering": ("affine", "dialects", "poly", "cost", "rewriting", "families", "passes"),
    "runtime": (
        *("affine", "dialects", "poly", "cost", "rewriting", "families", "passes", "lowering"),
    ),
    "playback": ("affine", "dialects", "rewriting"),
    "tile": ("affine", "dialects"),
    "trace": ("affine", "dialects"),
    "importers": (
        *("affine", "dialects", "poly", "cost", "rewriting", "families", "passes", "lowering"),
        *("runtime", "trace"),
    ),
    "tools": (
        *("affine", "dialects", "poly", "cost", "rewriting", "families", "passes", "lowering"),
        *("runtime", "playback", "tile", "trace", "importers", "tuning"),
    ),
    "tuning": (
        *("affine", "dialects", "poly", "cost", "rewriting", "families", "passes", "lowering"),
        *("runtime", "playback"),
    ),
}
"""What each room may import besides itself.  Nothing imports ``tools`` but the package itself,
which offers ``polyc.load``."""

FILES = sorted(p for room in BELOW for p in (ROOT / room).rglob("*.py"))


def name_of(file: Path) -> str:
    parts = ["polyc", *file.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(file): file for file in FILES}


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Every module that a file imports, and the line, inside functions too."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [(f"{module}.{alias.name}", node.lineno) for alias in node.names]
    return found


@cache
def imports_of(source: str) -> list[tuple[str, int]]:
    """Every module that a text imports, and the line."""
    return imports(parsed(source))


def at_start(tree: ast.Module) -> list[str]:
    """The modules that a file imports when it is imported itself."""
    found: list[tuple[str, int]] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += imports(node)
    return [module for module, _ in found]


def room_of(module: str) -> str | None:
    """The room that a module of ours is in."""
    head, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return room if head == "polyc" and room in BELOW else None


def family_of(module: str) -> str | None:
    """The family whose folder a module is in."""
    parts = module.split(".")
    inside = parts[:2] == ["polyc", "families"] and len(parts) > 2
    return parts[2] if inside and (ROOT / "families" / parts[2]).is_dir() else None


def faults(file: Path, source: str) -> list[str]:
    """What is wrong with the imports of ``source``, as if it stood in ``file``."""
    name = name_of(file)
    mine, family = room_of(name), family_of(name)
    assert mine is not None
    wrong: list[str] = []
    for module, line in imports_of(source):
        where = f"{file.relative_to(ROOT)}:{line}"
        if module.startswith("."):
            wrong.append(f"{where}: relative import")
        if module.split(".")[0] in BELOW:
            wrong.append(f"{where}: bare import of {module}")
        if module.split(".")[0] == "islpy" and name != "polyc.affine.isl":
            wrong.append(f"{where}: islpy belongs to affine/isl.py")
        theirs = room_of(module)
        if theirs is not None and theirs != mine and theirs not in BELOW[mine]:
            wrong.append(f"{where}: {mine} imports {module}, and may import {BELOW[mine]}")
        if family is not None and family_of(module) not in (None, family):
            wrong.append(f"{where}: the family {family} imports another, {module}")
    return wrong


def test_imports_go_one_way():
    assert [fault for file in FILES for fault in faults(file, file.read_text())] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("dialects/x.py", "from polyc.rewriting.driver import rewrite"),
        ("dialects/x.py", "def f():\n    from polyc.poly.view import g"),
        ("affine/isl.py", "import polyc.dialects.tiny"),
        ("poly/x.py", "from polyc.rewriting import emit"),
        ("cost/x.py", "from polyc.families.family import schedules_of"),
        ("poly/x.py", "from polyc.cost.time import modelled"),
        ("rewriting/x.py", "from polyc.families import rules"),
        ("families/rows/x.py", "from polyc.families.loops.recognise import find"),
        ("families/family.py", "from polyc.passes.support.json_text import read"),
        ("passes/gpu/x.py", "from polyc.lowering.region_to_gpu import frame"),
        ("passes/x.py", "from polyc.tools import polyc"),
        ("playback/x.py", "from polyc.passes.finish import finish"),
        ("tile/x.py", "from polyc.rewriting.emit import Emit"),
        ("runtime/x.py", "from polyc.playback.draws import DRAWS"),
        ("poly/view.py", "import islpy as isl"),
        ("tools/x.py", "from . import y"),
        ("tools/x.py", "from dialects import tiny"),
    ],
)
def test_the_rule_can_fail(file: str, source: str):
    assert faults(ROOT / file, source)


def test_the_rule_lets_through():
    assert not faults(ROOT / "dialects/x.py", "from polyc.affine.isl import equal")
    assert not faults(ROOT / "families/rows/x.py", "from polyc.families import rules")
    assert not faults(ROOT / "tools/x.py", "from polyc.runtime import nvrtc")


def circles(sources: Mapping[str, str]) -> list[set[str]]:
    """The sets of modules that import each other, also inside functions and for types alone."""
    edges: dict[str, set[str]] = {}
    for name, source in sources.items():
        found = {m if m in sources else m.rpartition(".")[0] for m, _ in imports_of(source)}
        edges[name] = {m for m in found if m in sources and m != name}
    return [set(group) for group in _strongly_connected(edges) if len(group) > 1]


def _strongly_connected(edges: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Tarjan's algorithm: the groups of nodes that reach each other."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                yield from visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            yield group

    for node in sorted(edges):
        if node not in index:
            yield from visit(node)


def test_no_files_import_each_other():
    assert circles({name: file.read_text() for name, file in NAMES.items()}) == []


def test_a_circle_is_seen():
    one = "def f():\n    from polyc.b import x"
    two = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from polyc.a import y"
    assert circles({"polyc.a": one, "polyc.b": two, "polyc.c": "import polyc.a"}) == [
        {"polyc.a", "polyc.b"}
    ]


HEAVY = (
    *("numpy", "islpy", "ml_dtypes", "cuda", "xdsl.interpreter", "xdsl.interpreters"),
    *("torch", "onnx"),
)


ARRAYS = ("numpy", "ml_dtypes")
"""What files that hold arrays import at their start: they are imported when one is asked for."""

OF_ARRAYS = ("polyc.importers.onnx", "polyc.importers.onnx_ops")


def holds_arrays(name: str) -> bool:
    return any(name == one or name.startswith(one + ".") for one in OF_ARRAYS)


def test_nothing_heavy_is_imported_at_start():
    wrong = [
        f"{name} imports {module}"
        for name, file in NAMES.items()
        if room_of(name) not in ("playback", "runtime") and name != "polyc.affine.isl"
        for module in at_start(parsed(file.read_text()))
        if any(module == heavy or module.startswith(heavy + ".") for heavy in HEAVY)
        and not (holds_arrays(name) and module in ARRAYS)
    ]
    assert wrong == [], "import it in the function that needs it"


def test_polyc_opt_starts_light():
    """What `polyc-opt` imports before it has seen a text: no NumPy, no isl, no driver."""
    code = (
        "import sys, polyc.tools.opt, polyc.tools.commands.command_line\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / ".typecheck")},
    )
    assert done.stdout.strip() == "[]"


def test_polyc_itself_imports_nothing():
    """`import polyc` and its store of files: no xDSL, no NumPy, none of the rooms."""
    code = (
        "import sys, polyc, polyc.runtime.store\n"
        "heavy = ('xdsl', 'numpy', 'islpy', 'cuda', 'polyc.dialects', 'polyc.tools')\n"
        "print([m for m in heavy if m in sys.modules], 'softmax' in dir(polyc))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / ".typecheck")},
    )
    assert done.stdout.strip() == "[] True"


def test_running_a_program_imports_no_xdsl():
    """What a program from the disk cache runs with."""
    code = (
        "import sys, polyc.runtime.program\n"
        "print([m for m in ('xdsl', 'islpy', 'polyc.passes') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / ".typecheck")},
    )
    assert done.stdout.strip() == "[]"


def test_what_polyc_offers_is_there():
    import polyc

    offered = [name for name in dir(polyc) if not name.startswith("_")]
    assert {"jit", "compile", "Tensor", "attention", "autotune", "torch_op"} <= set(offered)
    assert [name for name in offered if getattr(polyc, name, None) is None] == []
