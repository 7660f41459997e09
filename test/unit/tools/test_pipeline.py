"""The pipeline's texts: each reads back to the same bytes, and carries all there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import place_of
from polyc.passes.pipeline import ORDER, build
from polyc.rewriting.driver import verify
from polyc.test.support.plans import one_of_each, step
from polyc.test.support.root import ROOT
from polyc.test.support.split_programs import leave_only
from polyc.tools import polyc_opt
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

EXAMPLES = sorted((ROOT / "examples").glob("gemm_*.mlir"))
"""The examples that go the whole way to the GPU."""
FEW = ROOT / "examples" / "causal_attention.mlir"
"""The one with the fewest kernels."""
BF16 = ROOT / "examples" / "gemm_bias_relu_bf16.mlir"


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("example", "arch"),
    # An element type is a word in these texts; alignment changes the kernels of each architecture.
    [(p, a) for p in EXAMPLES[1:] for a in ARCHS if p != BF16],
    ids=lambda value: getattr(value, "stem", value),
)
def test_every_text_reads_back_and_carries_everything(example: Path, arch: str):
    """Each pass runs on the text that the one before printed: what a pass knows is there.

    One kernel of each kind: more of one kind are the same ops again, and most of the time.
    """
    ctx = make_context()
    module = parse_text(ctx, example.read_text(), "x.mlir")
    back, last = module, ""
    for name in ("", *ORDER):
        if name:
            run_pass(ctx, build(name, arch), module)
        if name == "plan-select":
            one_of_each(module)
        text = module_text(module)
        if text != last:
            back, last = parse_text(ctx, text, "y.mlir"), text
            verify(back)
            assert module_text(back) == text, f"after {name}"
        module = back.clone()


def test_text_with_locations_between_passes_changes_nothing():
    """All passes on one module in memory give in the end what they give one by one over text.

    The text reads back to the same bytes, the places of ops and arguments in it too.
    """
    arch = "sm_90a"  # what a location is does not depend on it; this one has more ops
    ctx = make_context()
    memory = parse_text(ctx, BF16.read_text(), "x.mlir")
    back, last = memory.clone(), ""
    for name in ORDER:
        texts = back.clone()
        step(memory, name, arch)
        step(texts, name, arch)
        if name == "plan-select":
            for module in (memory, texts):
                leave_only(module, "padded", "scalar")
        text = module_text(texts, debuginfo=True)
        if text != last:
            back, last = parse_text(make_context(), text, "y.mlir"), text
            verify(back)
            assert module_text(back, debuginfo=True) == text, f"after {name}"
    assert module_text(memory, debuginfo=True) == last


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_generic_form_reads_back(arch: str):
    ctx = make_context()
    module = parse_text(ctx, EXAMPLES[0].read_text(), "x.mlir")
    for name in ORDER:
        step(module, name, arch)
        if name in ("frontend-to-tiny", "plan-select", "region-to-gpu", ORDER[-1]):
            generic = module_text(module, generic=True)
            assert module_text(parse_text(ctx, generic, "y.mlir")) == module_text(module)


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_hardware_ops_carry_the_place_of_the_users_text(arch: str):
    ctx = make_context()
    module = parse_text(ctx, EXAMPLES[0].read_text(), "x.mlir")
    lines = EXAMPLES[0].read_text().splitlines()
    for name in ORDER:
        run_pass(ctx, build(name, arch), module)
        for op in module.walk():
            assert isinstance(op.location, FileLineColLoc), f"{op.name} after {name}"
    text = module_text(module, debuginfo=True)
    gemm = next(i for i, line in enumerate(lines, 1) if "frontend.gemm" in line)
    for hardware in ("gpu.wgmma n", "gpu.mma_sync") if arch == "sm_90a" else ("gpu.mma_sync",):
        found = [line for line in text.splitlines() if hardware in line]
        assert found, hardware
        assert all(f'loc("x.mlir":{gemm}:3)' in line for line in found), found[0]
    assert place_of(module) is not None


def test_arguments_have_a_place_of_their_own():
    text = EXAMPLES[0].read_text()
    lines = text.splitlines()
    module = parse_text(make_context(), text, "x.mlir")
    (graph,) = module.ops
    for arg in graph.regions[0].block.args:
        place = place_of(arg.location)
        assert place is not None and place.file == "x.mlir"
        assert lines[place.line - 1][place.column - 1 :].startswith(f"%{arg.name_hint}:")


def all_texts(seed: int, text: str, *args: str) -> bytes:
    """What a process with the hash seed ``seed`` prints after every pass."""
    return subprocess.run(
        [sys.executable, "-m", "polyc.tools.polyc_opt", *args, "--print-between-passes"],
        input=text.encode(),
        check=True,
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / ".typecheck"), "PYTHONHASHSEED": str(seed)},
    ).stdout


def test_same_bytes_in_every_process():
    """Of known sizes, which have one kernel, down to the CUDA C; of open ones to their plans."""
    text = FEW.read_text()
    sizes = {"B": "2", "H": "4", "M": "512", "N": "512"}
    known = re.sub(r"\b([BHMN])\b(?=[,\]])", lambda found: sizes[found[1]], text)
    arch = "sm_90a"  # whose passes are all of them
    whole = ["-p", f"lower-to-gpu{{arch={arch}}}", "-t", "cuda"]
    first = all_texts(1, known, *whole)
    assert first.count(b"// IR after ") == len(ORDER) - 1
    assert all_texts(4321, known, *whole) == first
    planned = ["-p", ",".join(ORDER[: ORDER.index("plan-select") + 1])]
    assert all_texts(1, text, *planned) == all_texts(4321, text, *planned)


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_passes_by_name_are_lower_to_gpu(arch: str, capsys: pytest.CaptureFixture[str]):
    pipeline = ",".join(ORDER).replace("plan-select", f"plan-select{{arch={arch}}}")
    texts: list[str] = []
    for passes in (pipeline, f"lower-to-gpu{{arch={arch}}}"):
        assert polyc_opt.main([str(EXAMPLES[0]), "-p", passes]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert isinstance(parse_text(make_context(), texts[0], "y.mlir"), ModuleOp)


def test_borders_are_in_the_order_of_the_pipeline():
    assert ORDER[:18] == (
        "frontend-to-tiny",
        "tiny-drop-value-masks",
        "tiny-split-reductions",
        "tiny-split-gates",
        "tiny-gather-first",
        "tiny-keep-groups",
        "tiny-to-index",
        "index-to-region",
        "region-srnf",
        "region-inline-deferred",
        "region-postpone-division",
        "region-streaming-softmax",
        "region-fold-indices",
        "region-merge-axes",
        "plan-select",
        "region-expand-together",
        "region-invert-divisors",
        "region-to-gpu",
    )
