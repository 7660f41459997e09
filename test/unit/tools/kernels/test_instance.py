"""A tile program in the sizes of a region: symbols, tensors, conditions, names."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyc.dialects.gpu.launches import LaunchOp, SequenceOp
from polyc.rewriting.driver import verify
from polyc.test.support.by_hand import (
    add_relu,
    instance,
    product,
    region,
    sequence_file,
    variants,
    written,
)
from polyc.test.support.root import ROOT
from polyc.tools.kernels.instance import Instance, of_pattern
from polyc.tools.kernels.registered import registered

GEMM = str(ROOT / "examples" / "kernels" / "gemm.py")


def test_names_of_the_region(tmp_path: Path) -> None:
    found = instance(written(tmp_path), region(add_relu("[P, Q]", "[Q]")))
    (kernel,) = found.module.kernels()
    assert found.name == "by_hand"
    assert kernel.sym_name.data == "f_by_hand"
    assert found.module.symbol_names == ("P", "Q")
    assert [b.text() for b in kernel.bindings][-2:] == ["symbol P", "symbol Q"]
    launch = found.launch
    assert isinstance(launch, LaunchOp)
    assert [str(size) for size in launch.grid.data] == [
        "(P + 3) floordiv 4",
        "(Q + 127) floordiv 128",
    ]
    verify(found.module)


def test_a_size_that_is_a_product(tmp_path: Path) -> None:
    found = instance(written(tmp_path), region(add_relu("[B, S, D]", "[D]")))
    (kernel,) = found.module.kernels()
    kinds = [str(a.type) for a in kernel.body.block.args]
    assert "[B * S, D]" in kinds[0]
    assert [b.text() for b in kernel.bindings][3:] == ["symbol B", "symbol S", "symbol D"]
    assert any(op.name == "arith.muli" for op in kernel.walk())
    # The module has the region's own tensors, of which the kernel's are views.
    assert [str(d) for d in found.module.dispatch().arg_types.data[0].dims] == ["B", "S", "D"]
    verify(found.module)


def test_a_size_that_is_a_number(tmp_path: Path) -> None:
    found = instance(written(tmp_path), region(add_relu("[6, 40]", "[40]")))
    (kernel,) = found.module.kernels()
    assert all(b.symbol_name is None for b in kernel.bindings)
    verify(found.module)


def test_inputs_in_the_region_s_order(tmp_path: Path) -> None:
    kind, row = "!frontend.tensor<[M, N], f32>", "!frontend.tensor<[N], f32>"
    other = add_relu().replace(f"%X: {kind}, %b: {row}", f"%b: {row}, %X: {kind}")
    found = instance(written(tmp_path), region(other))
    (kernel,) = found.module.kernels()
    assert [b.tensor_index for b in kernel.bindings][:3] == [1, 0, 2]
    verify(found.module)


def test_conditions_that_the_region_promises_are_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, when="N mod 8 == 0, M >= 2", assume="N >= 16")
    more = "assuming (N mod 16 == 0)"
    text = add_relu().replace(" {\n  %0", f" {more} {{\n  %0", 1)
    assert more in text
    assert [str(f) for f in instance(file, region(text)).launch.facts.data] == ["M >= 2", "N >= 16"]
    facts = instance(file, region(add_relu("[4, N]", "[N]"))).launch.facts.data
    assert [str(f) for f in facts] == ["N mod 8 == 0", "N >= 16"]


@pytest.mark.parametrize(
    ("when", "shape", "text"),
    [
        ("N mod 8 == 0", "[M, 30]", "it wants N mod 8 == 0, and N is 30 here"),
        ("M >= 9, M <= 8", "[M, N]", "which no sizes of the region satisfy"),
    ],
)
def test_conditions_that_never_hold(when: str, shape: str, text: str, tmp_path: Path) -> None:
    (own,) = registered(str(written(tmp_path, when=when)))
    (found,) = variants(own, region(add_relu(shape, f"[{shape.split(', ')[1]}")))
    assert isinstance(found, str)
    assert text in found


def test_a_sequence_with_its_workspace(tmp_path: Path) -> None:
    file = sequence_file(tmp_path)
    found = instance(file, region(add_relu("[B, S, D]", "[D]")))
    assert isinstance(found.launch, SequenceOp)
    (workspace,) = found.launch.workspaces()
    assert workspace.sym_name.data == "f_twice_kept"
    assert [str(d) for d in workspace.type.dims] == ["B * S", "D"]
    assert [k.sym_name.data for k in found.module.kernels()] == ["f_twice_first", "f_twice_second"]
    assert found.name == "twice"
    verify(found.module)


def test_the_pattern_s_own_sizes(tmp_path: Path) -> None:
    found = of_pattern(
        instance(written(tmp_path, when="N >= 4"), region(add_relu("[6, 40]", "[40]")))
    )
    assert found.module.symbol_names == ("M", "N")
    assert [str(f) for f in found.launch.facts.data] == ["N >= 4"]
    assert isinstance(found, Instance)
    verify(found.module)


def test_alignments_go_with_their_tensors() -> None:
    bias = "!frontend.tensor<[N], f16>"
    first, _ = registered(GEMM)
    text = product().replace(") -> (C:", f", %bias: {bias}) -> (C:").replace("relu %0", "relu %2")
    text = text.replace(
        "  %1 =",
        f"  %2 = frontend.elementwise add %0, %bias : (!frontend.tensor<[M, N], f16>, {bias})"
        " -> !frontend.tensor<[M, N], f16>\n  %1 =",
    )
    (found,) = variants(first, region(text))
    assert isinstance(found, Instance)
    assert found.launch.alignments == (16, 16, 16, 16)
