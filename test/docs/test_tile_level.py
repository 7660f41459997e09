"""docs/dialects/tile-level.md names every op of the tile level, and its lines verify."""

from __future__ import annotations

import re

import pytest

from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.module import MODULE_OPS
from polyc.dialects.gpu.tile import TILE_OPS
from polyc.rewriting.driver import verify
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

DOC = ROOT / "docs" / "dialects" / "tile-level.md"
BLOCK = re.compile(r"^```mlir( file=module)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_and_module() -> tuple[str, str]:
    """The lines of the page in order, and the module that they stand in."""
    found = BLOCK.findall(DOC.read_text(encoding="utf-8"))
    (module,) = (body for marked, body in found if marked)
    return "".join(body for marked, body in found if not marked), module


@pytest.mark.parametrize("op", [*TILE_OPS, *MODULE_OPS, SharedTileOp], ids=lambda op: op.name)
def test_every_op_is_described_and_shown(op: type) -> None:
    lines, _ = lines_and_module()
    name = str(vars(op)["name"] if "name" in vars(op) else getattr(op, "name"))  # noqa: B009
    prose = BLOCK.sub("", DOC.read_text(encoding="utf-8"))
    assert f"`{name}`" in prose
    if op not in MODULE_OPS:
        assert re.search(rf"\b{re.escape(name)}\b", lines), "show a line of it"


def test_the_lines_are_a_kernel() -> None:
    lines, module = lines_and_module()
    text = module.replace("    // ... the lines of this page ...\n", lines)
    assert text != module
    parsed = parse_text(make_context(), text, str(DOC))
    verify(parsed)
    printed = module_text(parsed)
    assert module_text(parse_text(make_context(), printed, "again.mlir")) == printed
