"""What the unit tests share: reproducible hypothesis runs, paths, parsing, the example."""

from __future__ import annotations

import gc
import os
from pathlib import Path

# The tests run in several processes already, and matrices here are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What a test lowers is lowered, however often it ran before; cubins are kept.
os.environ.setdefault("POLYC_CACHE", "cubins")

import pytest
from hypothesis import Phase, settings
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

# A test must give the same verdict on a slow machine and on every run; `make fuzz` goes on longer.
settings.register_profile("polyc", deadline=None, derandomize=True, max_examples=50)
# Where only the verdict matters, as for faults put in on purpose, failures are not made smaller.
settings.register_profile(
    "verdict", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("POLYC_HYPOTHESIS", "polyc"))

# IR is full of cycles, so the collector's default of a look at every 700 new objects would
# walk all modules that the tests keep, over and over.
gc.set_threshold(400_000, 20, 50)


def pytest_collection_finish() -> None:
    """What is loaded and collected stays: the collector need not look at it again."""
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
