"""Where each source file is tested: in the test file of its name, or where a table says.

``tested_by.toml`` has, for a source file without a test of its name, the tests that hold it: files
of ``test/unit``, ``test/docs`` or ``test/simulator``, and texts of ``test/filecheck``, or a folder
of them.  A test holds a file that it has to do with: it imports the file, uses what the file
defines, names an op or a pass that the file defines or handles, or does so with a file that
imports it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path

from xdsl.ir import Operation

from polyc.test.support.root import ROOT

TABLE = ROOT / "test" / "support" / "tested_by.toml"
ROOMS = (
    *("affine", "dialects", "poly", "rewriting", "families", "passes", "lowering", "playback"),
    *("runtime", "tile", "trace", "importers", "cost", "tuning", "distributed", "tools"),
)
TESTS = ("test/unit/", "test/docs/", "test/simulator/", "test/filecheck/")
UPSTREAM = ("affine", "arith", "math", "memref", "scf")


@cache
def sources() -> Sequence[Path]:
    """The source files that say something, relative to the repository."""
    return [
        path.relative_to(ROOT)
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not _is_empty(path)
    ]


def _is_empty(path: Path) -> bool:
    body = ast.parse(path.read_text("utf-8")).body
    return all(isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant) for x in body)


def own_test(source: Path) -> Path:
    """The test file of a source file's name; a package has its folder's name."""
    stem = source.parent.name if source.stem == "__init__" else source.stem
    return Path("test/unit") / source.parent / f"test_{stem}.py"


def table(text: str) -> dict[Path, Sequence[str]]:
    """The tests of each source file that the text of a table names."""
    return {
        Path(folder) / f"{name}.py": tests
        for folder, rows in tomllib.loads(text).items()
        for name, tests in rows.items()
    }


@dataclass
class Words:
    """What a Python file says: modules, names and strings, and what it defines itself."""

    modules: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])
    defined: set[str] = field(default_factory=set[str])
    strings: set[str] = field(default_factory=set[str])


@cache
def words(path: Path) -> Words:
    """What a file of the repository says."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    found = Words()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                found.modules |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found.modules |= {module, *(f"{module}.{name.name}" for name in names)}
                found.used |= {name.name for name in names}
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.used.add(name)
            case ast.Constant(value=str(text)):
                found.strings |= set(re.findall(r"[a-z][\w.-]*", text))
            case _:
                pass
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            found.defined.add(node.name)
    return found


def module_of(path: Path) -> str:
    """The module that a source file is."""
    return "polyc." + ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def op_names() -> Mapping[str, set[str]]:
    """The names in texts of every class of ops, attributes and passes, ours and upstream."""
    found: dict[str, set[str]] = {}
    for module in UPSTREAM:
        for key, value in vars(import_module(f"xdsl.dialects.{module}")).items():
            if isinstance(value, type) and issubclass(value, Operation):
                found.setdefault(key, set()).add(getattr(value, "name", key))
    for path in sources():
        for node in ast.parse((ROOT / path).read_text("utf-8")).body:
            name = _class_name(node) if isinstance(node, ast.ClassDef) else None
            if isinstance(node, ast.ClassDef) and name is not None and re.search("[.-]", name):
                found.setdefault(node.name, set()).add(name)
    return found


def _class_name(node: ast.ClassDef) -> str | None:
    """``NAME`` of a class that says ``name = "NAME"``."""
    for x in node.body:
        match x:
            case ast.Assign(targets=[ast.Name(id="name")], value=ast.Constant(value=str(name))):
                return name
            case _:
                pass
    return None


@cache
def importers() -> Mapping[Path, set[Path]]:
    """The source files that import each source file."""
    modules = {module_of(path): path for path in sources()}
    found: dict[Path, set[Path]] = {}
    for path in sources():
        for module in words(path).modules & modules.keys():
            found.setdefault(modules[module], set()).add(path)
        if path.stem == "__init__" and "import_module" in words(path).used:
            # A folder that is imported by name, a file when it is asked for.
            for other in sources():
                if other.parent == path.parent and other != path:
                    found.setdefault(other, set()).add(path)
    return found


def users(source: Path) -> set[Path]:
    """A file, those that import it, and those that do so through files of its own folder.

    What a folder's ``__init__`` is imported for need not be this file.
    """
    found, todo = {source}, [source]
    while todo:
        path = todo.pop()
        if path.parent == source.parent and (path == source or path.stem != "__init__"):
            new = importers().get(path, set()) - found
            found |= new
            todo += new
    return found


@cache
def names_near(source: Path) -> tuple[set[str], set[str]]:
    """The modules that are a file or use it, and the names of the ops, attributes and passes."""
    near = users(source)
    handled = {name for path in near for name in words(path).defined}
    handled |= {name for name in words(source).used if name.endswith("Op")}
    named = {name for key in op_names().keys() & handled for name in op_names()[key]}
    return {module_of(path) for path in near}, named


@cache
def text_words(test: Path) -> set[str]:
    """The names of ops, attributes and passes that a text may say."""
    return set(re.findall(r"[a-z][\w.-]*\w", (ROOT / test).read_text("utf-8")))


@cache
def test_words(test: Path) -> Words:
    """What a test says, with what the modules of ``test/support`` that it imports import."""
    said = words(test)
    helpers = [ROOT.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in said.modules]
    there = [x for x in helpers if x.parent == TABLE.parent and x.exists()]
    more = (words(x.relative_to(ROOT)).modules for x in there)
    return replace(said, modules=said.modules.union(*more))


def holds(test: Path, source: Path) -> bool:
    """Whether a test has to do with a source file."""
    if (ROOT / test).is_dir():
        return any(holds(x.relative_to(ROOT), source) for x in (ROOT / test).rglob("*.mlir"))
    modules, named = names_near(source)
    if test.suffix == ".mlir":
        return bool(named & text_words(test))
    said = test_words(test)
    return bool(modules & said.modules or words(source).defined & said.used or named & said.strings)


def faults(source: Path, tests: Sequence[str] | None) -> list[str]:
    """What is wrong with what the table says of a source file; None where it says nothing."""
    own = own_test(source)
    if not (ROOT / source).is_file():
        return [f"{source} is in the table, and is not there"]
    if (ROOT / own).is_file():
        wrong = [] if holds(own, source) else [f"{own} has nothing to do with {source}"]
        return [*wrong, *([f"{source} has {own}: take it out of the table"] if tests else [])]
    if not tests:
        return [f"{source} has no {own}: write it, or say in {TABLE.name} where it is tested"]
    wrong = [f"{test}, for {source}, is not there" for test in tests if not (ROOT / test).exists()]
    if not wrong:
        wrong = [
            f"{test} has nothing to do with {source}"
            for test in tests
            if not test.startswith(TESTS) or not holds(Path(test), source)
        ]
    return wrong
