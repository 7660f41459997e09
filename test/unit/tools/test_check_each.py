"""``--check-each`` at sizes with tails: no pass of a right program is blamed, and a wrong one is.

Between the passes of the gpu dialect a kernel looks like one of the hardware level before it is:
accesses have no guards yet where tiles leave their tensors.
"""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnitAttr, f32
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.passes.finish import is_finished
from polyc.passes.pipeline import ORDER, build
from polyc.test.support import attention_programs, loop_programs, row_programs
from polyc.test.support.gpu_text import find, kernel, printed
from polyc.test.support.plans import leave_chosen
from polyc.test.support.root import ROOT
from polyc.test.support.row_programs import graph
from polyc.tools.check import EachPass
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ROW = "T<[M, 256], f16>"

RESIDUAL = graph(
    f"%X: {ROW}, %R: {ROW}, %W: T<[256], f16>",
    f"Y: {ROW}, S: {ROW}",
    [
        f"%s = frontend.elementwise add %X, %R : ({ROW}, {ROW}) -> {ROW}",
        f"%n = frontend.rms_norm %s weight %W axes [1] eps 1.0e-05 : ({ROW}, T<[256], f16>) -> {ROW}",
    ],
    f"%n, %s : {ROW}, {ROW}",
)
NORM = graph(
    f"%X: {ROW}, %W: T<[256], f16>",
    f"Y: {ROW}",
    [f"%n = frontend.rms_norm %X weight %W axes [1] eps 1.0e-06 : ({ROW}, T<[256], f16>) -> {ROW}"],
    f"%n : {ROW}",
)


def text(program: str) -> Callable[[], ModuleOp]:
    return lambda: parse_text(make_context(), program, "t.mlir")


def example(name: str) -> Callable[[], ModuleOp]:
    return text((ROOT / "examples" / f"{name}.mlir").read_text(encoding="utf-8"))


Case = tuple[Callable[[], ModuleOp], Mapping[str, int]]

CASES: Mapping[str, Case] = {
    "rows known to be 256": (text(NORM), {"M": 9}),
    "two outputs of a row of 256": (text(RESIDUAL), {"M": 1}),
    "softmax": (example("softmax"), {"M": 5, "N": 264}),
    "layer_norm": (example("layer_norm"), {"M": 5, "N": 130}),
    "rms_norm": (example("rms_norm"), {"M": 5, "N": 1032}),
    **{
        f"rows: {name}": (text(row_programs.PROGRAMS[name].text), row_programs.PROGRAMS[name].sizes(72))
        for name in ("residual", "extremes")
    },
    **{
        f"loops: {name}": (loop_programs.PROGRAMS[name].module, loop_programs.PROGRAMS[name].sizes[0])
        for name in ("a chain of halves", "a concatenation", "a mean over everything", "several outputs")
    },
    "gemm": (example("gemm_bias_relu"), {"M": 9, "N": 136, "K": 72}),
    "gemm with loose rows": (example("gemm_bias_relu"), {"M": 9, "N": 7, "K": 5}),
    "conv": (example("conv_silu"), {"N": 1, "H": 5, "W": 3, "C": 8, "F": 8}),
    "attention": (text(attention_programs.PROGRAMS["causal"].text()), {"H": 1, "M": 70, "N": 33}),
    "product in f32": (example("product_f32"), {"M": 9, "N": 5, "K": 7}),
    "softmax of columns": (example("column_softmax"), {"M": 9, "N": 5}),
}  # fmt: skip


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch"),
    # In turn: each kind of kernel is there more than once; attention's is another on each.
    [(name, ("sm_80", "sm_90a")[i % 2]) for i, name in enumerate(CASES)]
    + [("attention", "sm_90a")],
)
def test_no_pass_is_blamed(name: str, arch: str) -> None:
    make, sizes = CASES[name]
    module = make()
    check = EachPass.of_module(module, given=sizes)
    for step in ORDER:
        build(step, arch).apply(make_context(), module)
        if step == "plan-select":
            leave_chosen(module, sizes)  # No other one runs.
        check.after(module, step)
    check.finish()
    assert is_finished(module)


def lowered(name: str) -> tuple[ModuleOp, EachPass]:
    """The norm of rows of 256 after the passes up to ``name``."""
    module = text(NORM)()
    check = EachPass.of_module(module, given={"M": 9})
    for step in ORDER[: ORDER.index(name) + 1]:
        build(step, "sm_80").apply(make_context(), module)
    return module, check


def test_before_its_guards_a_kernel_is_not_finished() -> None:
    """Such a text may be given to a tool: it is lowered to its end, and not run as it is."""
    module, check = lowered("gpu-lower-tile-ops")
    assert not is_finished(module)
    again = parse_text(make_context(), printed(module), "t.mlir")
    for name in ORDER[ORDER.index("gpu-lower-tile-ops") + 1 :]:
        build(name, "sm_80").apply(make_context(), again)
    check.after(again, "the passes")
    check.finish()


@pytest.mark.parametrize("name", ["gpu-legalize-access", "gpu-linearize-access"])
def test_a_guard_that_a_pass_loses_is_still_an_alarm(name: str) -> None:
    """At once where accesses have one offset, at the end of the passes where they have not."""
    module, check = lowered(name)
    for store in find(module, hw.StoreGlobalOp):
        bare = hw.StoreGlobalOp(store.value, store.tensor, store.indices)
        block = store.parent_block()
        assert block is not None and store.predicate is not None
        block.insert_op_before(bare, store)
        store.detach()
    rest = [*ORDER[ORDER.index(name) + 1 :]]
    if name == "gpu-legalize-access":
        assert not is_finished(module)
        for step in rest:
            if step != "gpu-vectorize":  # It would not touch what has no guard.
                build(step, "sm_80").apply(make_context(), module)
    with pytest.raises(PolycError) as caught:
        check.after(module, name)
    assert caught.value.kind == "OutOfBounds"


@pytest.mark.parametrize("others", range(6))
def test_what_one_draw_shows_late_is_laid_to_its_pass(others: int) -> None:
    """Of threads each pass is given one kind of inputs, whichever turn it is; all are at the end."""
    module = loop_programs.PROGRAMS["a concatenation"].module()
    check = EachPass.of_module(module, given={"M": 5, "N": 7})
    for step in ORDER:
        build(step, "sm_80").apply(make_context(), module)
    check.after(module, "the passes")

    def change(name: str) -> None:
        find(module, hw.StoreGlobalOp)[0].attributes[name] = UnitAttr()
        check.after(module, name)

    for number in range(others):
        change(f"before{number}")
    for store in find(module, hw.StoreGlobalOp):
        if store.value.type == f32:
            most = arith.ConstantOp(FloatAttr(20.0, f32))
            bounded = arith.MinimumfOp(store.value, most.result)
            Rewriter().insert_op([most, bounded], InsertPoint.before(store))
            store.operands[0] = bounded.result
    with pytest.raises(PolycError, match=r"bound changes what @f .* on large"):
        for name in ("bound", "after0", "after1"):
            change(name)
        check.finish()


def test_a_text_of_the_hardware_level_is_held_to_its_word() -> None:
    """Without a pass behind it, an access without a guard is one that its author says is inside."""
    tensor = "!gpu.global<[M], f32>"
    module = parse_text(
        make_context(),
        kernel(
            f"""
    %t = gpu.thread_id
    %x = gpu.load_global %X[%t : index] : {tensor} -> f32
    gpu.store_global %x, %Y[%t : index] : f32, {tensor}""",
            f"%X: {tensor} = tensor 0, %Y: {tensor} = tensor 1",
            symbols="M",
            dispatch=f"gpu.dispatch (X: {tensor}) -> (Y: {tensor}) {{ gpu.launch @k align [4, 4] grid [1] }}",
        ),
        "t.mlir",
    )
    assert is_finished(module)
    with pytest.raises(PolycError) as caught:
        EachPass.of_module(module, given={"M": 100})
    assert caught.value.kind == "OutOfBounds"
