"""``make check``: lint, types, texts and unit tests of what differs from a commit.

    python test/support/changed.py --since HEAD

A source file is tested by the test file of its name; where there is none, by those that import it
and those that ``tested_by.toml`` names.  A pass and a dialect are tested also by their texts.
``make test`` runs the tests of all files, ``make test-all`` all of their cases.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

# Run as a script, it must not need an installed package.
ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent


def changed(since: str) -> list[str]:
    """The files that differ from a commit, new ones too, relative to the repository."""

    def listed(*args: str) -> list[str]:
        done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    found = [
        *listed("diff", "--name-only", since, "--"),
        *listed("ls-files", "--others", "--exclude-standard"),
    ]
    return sorted({name for name in found if (ROOT / name).is_file()})


def unit_tests(name: str) -> list[str]:
    """The test files to run when a file has changed."""
    path = Path(name)
    if path.suffix != ".py" or name.startswith("test/fuzz"):
        return []
    if name.startswith(("test/unit/", "test/docs/")) and path.name.startswith("test_"):
        return [name]
    stem = path.parent.name if path.stem == "__init__" else path.stem
    own = ROOT / "test" / "unit" / path.parent / f"test_{stem}.py"
    if own.is_file():
        return [str(own.relative_to(ROOT))]
    return each([_importers(path), [test for test in _named(path) if test.endswith(".py")]])


def _named(path: Path) -> Sequence[str]:
    """The tests that the table names for a source file."""
    rows = tomllib.loads((ROOT / "test" / "support" / "tested_by.toml").read_text("utf-8"))
    return rows.get(str(path.parent), {}).get(path.stem, ())


def _importers(path: Path) -> list[str]:
    """The test files that import a module."""
    module = re.escape("polyc." + ".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    package, _, last = module.rpartition("\\.")
    named = re.compile(rf"^(from|import) {module}\b|^from {package} import .*\b{last}\b", re.M)
    tests = [*(ROOT / "test" / "unit").rglob("test_*.py"), *(ROOT / "test/docs").glob("test_*.py")]
    return sorted(str(t.relative_to(ROOT)) for t in tests if named.search(t.read_text("utf-8")))


def lit_texts(name: str) -> list[str]:
    """The lit tests to run when a file has changed: itself, its pass's, or its dialect's."""
    path = Path(name)
    if name.startswith("test/filecheck/"):
        return [name] if path.suffix == ".mlir" else []
    named = [test for test in _named(path) if test.startswith("test/filecheck/")]
    return each([named, _own_texts(path)])


def _own_texts(path: Path) -> list[str]:
    """The texts of a pass, or of the dialect that a file belongs to."""
    match path.parts:
        case ("passes", dialect, file) if dialect != "support":
            folder = f"{dialect}-{Path(file).stem.replace('_', '-')}"
            found = ROOT / "test" / "filecheck" / dialect / folder
        case ("lowering", border, *_):
            dialect = border.partition("_")[0]
            found = ROOT / "test" / "filecheck" / dialect / border.replace("_", "-")
        case ("dialects", dialect, *_):
            folder = ROOT / "test" / "filecheck" / dialect
            return sorted(str(p.relative_to(ROOT)) for p in folder.glob("*.mlir"))
        case _:
            return []
    return [str(found.relative_to(ROOT))] if found.is_dir() else []


def each(of: Iterable[Sequence[str]]) -> list[str]:
    """All names of several lists, each once."""
    return sorted({name for names in of for name in names})


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--since", default="HEAD", help="the commit to compare with")
    names = changed(options.parse_args().since)
    lint = [str(BIN / "ruff"), "check", "--quiet"]
    layout = [str(BIN / "ruff"), "format", "--check", "--quiet"]
    types = [str(BIN / "pyright"), "--pythonpath", sys.executable]
    failed: list[str] = []
    for step, command, files in (
        ("ruff check", lint, ["."]),
        ("ruff format", layout, ["."]),
        ("pyright", types, [name for name in names if name.endswith(".py")]),
        ("lit", [str(BIN / "lit"), "-q"], each(lit_texts(name) for name in names)),
        ("pytest", [str(BIN / "pytest"), "-q", "-n", "auto"], each(unit_tests(n) for n in names)),
    ):
        print(f"== {step}" if files else f"== {step}: nothing changed", flush=True)
        if files and subprocess.run([*command, *files], cwd=ROOT, check=False).returncode:
            failed.append(step)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
