"""How often a tool's process looks for garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.runtime.garbage import OBJECTS, collect_rarely, rarely
from polyc.test.support.root import ROOT
from polyc.tools import polyc, polyc_opt
from polyc.tools.pipeline import Compilation

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


def test_work_collects_rarely_and_leaves_the_process_as_it_was() -> None:
    seen: list[int] = []

    def look(module: ModuleOp, name: str) -> None:
        seen.append(gc.get_threshold()[0])

    job = Compilation.of_file(FILE, "sm_80")
    job.after = look
    job.run()
    assert set(seen) == {OBJECTS}
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_thread_that_is_out_restores_the_process() -> None:
    inside, out = threading.Event(), threading.Event()

    def work() -> None:
        with rarely():
            inside.set()
            out.wait()

    other = threading.Thread(target=work)
    with rarely():
        other.start()
        inside.wait()
    assert gc.get_threshold()[0] == OBJECTS
    out.set()
    other.join()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (1_000_000, 10, 10)])
def test_a_process_that_collects_more_rarely_goes_on_so(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rarely():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_an_error_restores_the_process() -> None:
    with pytest.raises(ValueError), rarely():
        raise ValueError
    assert gc.get_threshold() == (700, 10, 10)


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
