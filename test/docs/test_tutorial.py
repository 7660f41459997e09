"""docs/tutorials/writing-a-pattern.md: its files are written, its commands give what it shows."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from polyc.test.support.root import ROOT

TUTORIAL = ROOT / "docs" / "tutorials" / "writing-a-pattern.md"

BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A line of a console block and the text below it."""

    line: str
    shown: str


def blocks() -> tuple[dict[str, str], list[Command]]:
    """The files of the tutorial by name, and its commands in order."""
    files: dict[str, str] = {}
    commands: list[Command] = []
    for language, file, body in BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if file:
            files[file] = body
        elif language == "console":
            first, _, shown = body.partition("\n")
            assert first.startswith("$ "), first
            commands.append(Command(first[2:], shown))
    return files, commands


FILES, COMMANDS = blocks()


def run(directory: Path, line: str) -> tuple[int, str]:
    """Exit code and output of a command line of the tutorial, in ``directory``."""
    to_null = line.endswith(" > /dev/null")
    words = shlex.split(line.removesuffix(" > /dev/null"))
    tools = {"polyc-opt": ["-m", "polyc.tools.polyc_opt"], "pytest": ["-m", "pytest"]}
    program = [sys.executable, *tools[words[0]], *words[1:]]
    path = os.pathsep.join([str(ROOT / ".typecheck"), str(directory)])
    done = subprocess.run(
        program,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, ("" if to_null else done.stdout) + done.stderr


def install(directory: Path) -> None:
    """What installing the tutorial's package leaves behind: its metadata on the path."""
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = directory / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("tutorial")
    for name, text in FILES.items():
        (where / name).write_text(text, encoding="utf-8")
    return where


def test_the_tutorial_has_its_parts() -> None:
    assert set(FILES) == {
        "kernel.mlir",
        "unit_scale.py",
        "test_unit_scale.py",
        "pyproject.toml",
        "top.mlir",
        "my_rows.py",
    }
    assert len(COMMANDS) == 5


def test_what_its_files_need_is_said() -> None:
    """A package that polyc does not bring along is named, with how to get it."""
    text = TUTORIAL.read_text(encoding="utf-8")
    imported: set[str] = set()
    for name, body in FILES.items():
        for node in ast.walk(ast.parse(body)) if name.endswith(".py") else ():
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                imported.add(node.module.partition(".")[0])
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {re.split(r"\W", name)[0] for name in data["dependencies"]}
    own = {Path(name).stem for name in FILES}
    programs = {command.line.split()[0] for command in COMMANDS} - {"polyc-opt"}
    needed = (imported | programs) - brought - own - {"polyc"} - sys.stdlib_module_names
    said = re.search(r"`pip install ([\w ]+)`", text)
    assert said is not None and set(said[1].split()) == needed == {"pytest", "hypothesis"}


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_command_gives_what_the_tutorial_shows(number: int, directory: Path) -> None:
    command = COMMANDS[number]
    if "unit_scale.py" not in command.line and "drop-unit-scale" in command.line:
        code, output = run(directory, command.line)
        assert code == 1
        assert "there is no pass drop-unit-scale" in output
        install(directory)
    code, output = run(directory, command.line)
    assert code == 0, output
    if command.line.startswith("pytest"):
        # The dots and the time are not the tutorial's.
        output = re.sub(r"^\.+ +\[100%\]\n", "", output)
        output = re.sub(r" in [\d.]+s", "", output)
    assert output == command.shown
