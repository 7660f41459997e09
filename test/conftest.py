"""What the unit tests share: reproducible hypothesis runs, paths, parsing, the example."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import cast

# The tests run in several processes already, and matrices here are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What a test lowers is lowered, however often it ran before; cubins are kept.
os.environ.setdefault("POLYC_CACHE", "cubins")

import pytest
from hypothesis import Phase, settings
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.test.support.root import ROOT
from polyc.test.support.turns import IN_TURN, chosen, examples
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def profile() -> str:
    """Say how properties are tested; the profile's name.

    A test must give the same verdict on a slow machine and on every run; `make fuzz` goes on
    longer.
    """
    settings.register_profile("polyc", deadline=None, derandomize=True, max_examples=examples(50))
    # Where only the verdict matters, as for faults put in on purpose, failures are not made
    # smaller.
    settings.register_profile(
        "verdict", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
    )
    return os.environ.get("POLYC_HYPOTHESIS", "polyc")


settings.load_profile(profile())

# IR is full of cycles, so the collector's default of a look at every 700 new objects would
# walk all modules that the tests keep, over and over.
gc.set_threshold(400_000, 20, 50)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = (
        "of tests marked turns(n) every (n times TIMES)-th case, and of properties fewer inputs, "
        "as `make test` has it; 0, the default: all"
    )
    parser.addoption("--in-turn", type=int, default=0, metavar="TIMES", help=text)


def pytest_configure(config: pytest.Config) -> None:
    text = "turns(n): with --in-turn=1 one of every n cases runs, the first one to begin with"
    config.addinivalue_line("markers", text)
    if config.getoption("--in-turn"):
        os.environ[IN_TURN] = "1"
        settings.load_profile(profile())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --in-turn, leave every (n times TIMES)-th case of the tests that are marked so."""
    times = cast("int", config.getoption("--in-turn"))
    if not times:
        return
    marks = [item.get_closest_marker("turns") for item in items]
    names = [item.nodeid.partition("[")[0] for item in items]
    shares = [None if mark is None else mark.args[0] * times for mark in marks]
    taken = chosen(zip(names, shares, strict=True))
    left = [item for item, now in zip(items, taken, strict=True) if not now]
    items[:] = [item for item, now in zip(items, taken, strict=True) if now]
    config.hook.pytest_deselected(items=left)


def pytest_collection_finish() -> None:
    """What is loaded and collected stays: the collector need not look at it again."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Nor at the end, where pytest collects all that there is.

    xdist gives a process five seconds to end, and then sends it a Ctrl-C.
    """
    gc.freeze()


@pytest.fixture
def root() -> Path:
    """The repository root."""
    return ROOT


@pytest.fixture
def ctx() -> Context:
    """A context that knows every dialect."""
    return make_context()


@pytest.fixture
def example() -> Path:
    """The path of examples/gemm_bias_relu.mlir."""
    return ROOT / "examples" / "gemm_bias_relu.mlir"


@pytest.fixture
def example_module(ctx: Context, example: Path) -> ModuleOp:
    """The example, parsed, with locations."""
    return parse_text(ctx, example.read_text(), str(example))
