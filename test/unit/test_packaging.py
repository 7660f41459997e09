"""The package list is what lies on the disk, and the build has all of it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

import polyc
from polyc.passes.pipeline import module_of
from polyc.test.support.root import ROOT
from polyc.tools.registry import (
    DIALECTS,
    PASSES,
    UPSTREAM_PASSES,
    PassRegistry,
    make_context,
)

NOT_PACKAGES = {"bench", "build", "docs", "examples", "out", "test", "dist"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def on_disk() -> list[str]:
    found = ["polyc"]
    for init in ROOT.rglob("__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts and parts[0] not in NOT_PACKAGES and not parts[0].startswith("."):
            found.append(".".join(("polyc", *parts)))
    return sorted(found)


def test_package_list_is_the_disk():
    assert sorted(project()["tool"]["setuptools"]["packages"]) == on_disk()


def test_every_folder_with_code_is_a_package():
    """A subpackage without __init__.py imports from the checkout and is not in the wheel."""
    folders = {
        file.parent
        for package in on_disk()
        if package != "polyc"
        for file in ROOT.joinpath(*package.split(".")[1:]).rglob("*.py")
    }
    assert [str(f) for f in folders if not (f / "__init__.py").exists()] == []


def test_typed_marker_and_scripts():
    data = project()
    assert (ROOT / "py.typed").exists()
    assert data["tool"]["setuptools"]["package-data"] == {"polyc": ["py.typed"]}
    for reference in data["project"]["scripts"].values():
        module, _, name = reference.partition(":")
        assert callable(getattr(__import__(module, fromlist=[name]), name))


def test_names_of_others_are_not_taken():
    """`index` and `gpu` in xDSL's plug-in group would break every xdsl-opt beside polyc."""
    assert "xdsl.universe" not in project()["project"].get("entry-points", {})


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_loads(name: str):
    ctx = make_context()
    ctx.load_registered_dialect(name)
    ours = [d for d in ctx.loaded_dialects if d.name == name]
    assert len(ours) == 1
    for op in ours[0].operations:
        assert op.__module__.startswith("polyc."), f"{op.name} is not ours"


@pytest.mark.parametrize("name", [*PASSES, *UPSTREAM_PASSES])
def test_every_pass_loads_under_its_name(name: str):
    assert PassRegistry().find(name).name == name


def test_pass_lies_in_the_file_of_its_name():
    for name in PASSES:
        *_, folder, file = module_of(name).split(".")
        whole = name.replace("-", "_")
        assert file == whole or f"{folder}_{file}" == whole


def test_what_the_package_offers_by_itself() -> None:
    """Refusals can be caught without knowing the rooms."""
    with pytest.raises(polyc.PolycError) as caught:
        polyc.load("frontend.graph @f(\n", "sm_80")
    assert caught.value.kind == "ParseError"
    with pytest.raises(AttributeError, match="no attribute 'Polyc'"):
        getattr(polyc, "Polyc")  # noqa: B009
