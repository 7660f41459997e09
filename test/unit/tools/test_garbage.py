"""How often a tool's process looks for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from polyc.test.support.root import ROOT
from polyc.tools import polyc, polyc_opt
from polyc.tools.garbage import collect_rarely

FILE = str(ROOT / "examples" / "gemm_bias_relu.mlir")


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Python's own, and afterwards what they were."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_rarely() -> None:
    collect_rarely()
    assert gc.isenabled() and gc.get_threshold()[0] >= 100_000


def test_a_call_from_python_leaves_the_process_as_it_is() -> None:
    """What a program sets is its own affair: only a console script collects rarely."""
    assert polyc.main(["analyze", FILE]) == 0
    assert polyc_opt.main([FILE]) == 0
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("tool", [polyc, polyc_opt])
def test_a_console_script_collects_rarely(
    tool: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tool", "--version"])
    monkeypatch.setattr(tool, "watch", lambda args: None)  # pyright: ignore
    with pytest.raises(SystemExit):
        raise SystemExit(tool.main())  # pyright: ignore
    assert gc.get_threshold()[0] >= 100_000
