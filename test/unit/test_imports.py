"""Imports go one way, dialects stay light, and CUDA text lies in one file."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = ("dialects", "poly", "lowering", "passes", "playback", "runtime", "tile", "tools")
RANK = {
    "polyc.affine.isl": 0,
    "polyc.affine.expressions": 0,
    "polyc.dialects": 1,
    "polyc.poly": 2,
    "polyc.lowering": 3,
    "polyc.passes": 3,
    "polyc.playback": 3,
    "polyc.tile": 2,
    "polyc.runtime": 4,
    "polyc.tools": 5,
}
"""tools → runtime → playback, lowering, passes → poly analyses → dialects → affine/isl.py.

The builder, tile, stands on dialects alone.
"""

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))


def name_of(file: Path) -> str:
    parts = ["polyc", *file.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rank(module: str) -> int | None:
    parts = module.split(".")
    while parts:
        if (found := RANK.get(".".join(parts))) is not None:
            return found
        parts.pop()
    return None


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


def at_start(tree: ast.Module) -> list[str]:
    """The modules that a file imports when it is imported itself."""
    found: list[tuple[str, int]] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += imports(node)
    return [module for module, _ in found]


def faults(file: Path, source: str) -> list[str]:
    """What is wrong with the imports of ``source``, as if it stood in ``file``."""
    name = name_of(file)
    mine = rank(name)
    assert mine is not None
    wrong: list[str] = []
    for module, line in imports(ast.parse(source)):
        where = f"{file.relative_to(ROOT)}:{line}"
        if module.startswith("."):
            wrong.append(f"{where}: relative import")
        if module.split(".")[0] in ROOMS:
            wrong.append(f"{where}: bare import of {module}")
        if module.split(".")[0] == "islpy" and name != "polyc.affine.isl":
            wrong.append(f"{where}: islpy belongs to affine/isl.py")
        theirs = rank(module)
        if theirs is not None and theirs > mine:
            wrong.append(f"{where}: {name} imports {module} from a room above it")
    return wrong


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_go_one_way(file: Path):
    assert faults(file, file.read_text()) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("dialects/x.py", "from polyc.rewriting.driver import rewrite"),
        ("dialects/x.py", "def f():\n    from polyc.poly.view import g"),
        ("affine/isl.py", "import polyc.dialects.tiny"),
        ("passes/x.py", "from polyc.tools import polyc"),
        ("poly/view.py", "import islpy as isl"),
        ("tools/x.py", "from . import y"),
        ("tools/x.py", "from dialects import tiny"),
    ],
)
def test_the_rule_can_fail(file: str, source: str):
    assert faults(ROOT / file, source)


def test_the_rule_lets_through():
    assert not faults(ROOT / "dialects/x.py", "from polyc.affine.isl import equal")
    assert not faults(ROOT / "tools/x.py", "from polyc.runtime import nvrtc")


HEAVY = ("numpy", "islpy", "ml_dtypes", "cuda", "xdsl.interpreter", "xdsl.interpreters")


@pytest.mark.parametrize(
    "file",
    [f for f in FILES if f.parts[len(ROOT.parts)] not in ("playback", "runtime")],
    ids=name_of,
)
def test_nothing_heavy_is_imported_at_start(file: Path):
    if name_of(file) == "polyc.affine.isl":
        return
    wrong = [
        module
        for module in at_start(ast.parse(file.read_text()))
        if any(module == heavy or module.startswith(heavy + ".") for heavy in HEAVY)
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
