"""Kernels by hand that are tried: right ones pass, and each wrong one is found out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.passes.finish import finished
from polyc.test.support.by_hand import (
    RIGHT,
    add_relu,
    instance,
    region,
    sequence_file,
    variants,
    written,
)
from polyc.test.support.root import ROOT
from polyc.tools.kernels import trial
from polyc.tools.kernels.instance import Instance
from polyc.tools.kernels.registered import registered
from polyc.tools.kernels.trial import refused, tried

GEMM = (ROOT / "examples" / "kernels" / "gemm.py").read_text("utf-8")
BIASED = (ROOT / "examples" / "gemm_bias_relu.mlir").read_text("utf-8")


def gemm(path: Path, old: str, new: str, text: str = BIASED) -> Instance:
    """The first kernel of the example with one line changed, for the example's graph."""
    assert old in GEMM
    (path / "pattern.mlir").write_text(BIASED, "utf-8")
    file = path / "changed_gemm.py"
    file.write_text(
        GEMM.replace(old, new).replace("../gemm_bias_relu.mlir", "pattern.mlir"), "utf-8"
    )
    found = variants(registered(str(file))[0], region(text))[0]
    assert isinstance(found, Instance)
    return found


def wrong(made: Instance) -> PolycError:
    with pytest.raises(PolycError) as caught:
        tried(made)
    assert caught.value.kind == "WrongKernel"
    assert caught.value.place is not None
    assert caught.value.place.file == made.registered.program.location.filename.data  # pyright: ignore
    return caught.value


@pytest.mark.parametrize(
    "target",
    [add_relu(), add_relu("[B, S, D]", "[D]"), add_relu("[6, 40]", "[40]")],
    ids=["names", "a product of sizes", "numbers"],
)
def test_a_right_kernel_passes(target: str, tmp_path: Path) -> None:
    where = tried(instance(written(tmp_path), region(target)))
    assert where
    assert all("=" in text or text == "its constant sizes" for text in where)


WRONG = {
    "no epilogue": "x[i, j] + b[j + j0]",
    "no bias": "T.max(x[i, j], 0.0)",
    "another bound": "T.max(x[i, j] + b[j], 0.0)",
    "another constant": "T.max(x[i, j] + b[j + j0], 0.001)",
    "NaN is dropped": "T.select(x[i, j] + b[j + j0] > 0.0, x[i, j] + b[j + j0], 0.0)",
    "rounded": "T.cast(T.cast(T.max(x[i, j] + b[j + j0], 0.0), T.f16), T.f32)",
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_is_refused(value: str, tmp_path: Path) -> None:
    error = wrong(instance(written(tmp_path, value=value), region(add_relu())))
    found = re.search(
        r"by_hand does not compute region @f at M=\d+, N=\d+.*: output Y, element \[\d+, \d+\] is "
        r"\S+, expected \S+ within",
        error.message,
    )
    assert found is not None, error.message


def test_the_example_is_right(tmp_path: Path) -> None:
    assert len(tried(gemm(tmp_path, "(128, 160)", "(128, 64)"))) == 2


GEMM_WRONG = {
    "no relu": ("T.max(x, 0.0)", "x"),
    "a step less": ("T.pipelined(K, step", "T.pipelined(K - 64, step"),
    "rows and columns": ("C[i + m0, j + n0] = y", "C[i + m0, j + m0] = y"),
    "a smaller grid": ("T.ceildiv(N, columns)]", "T.ceildiv(N, columns + 8)]"),
}


@pytest.mark.parametrize(("old", "new"), GEMM_WRONG.values(), ids=GEMM_WRONG)
def test_a_wrong_product_is_refused(old: str, new: str, tmp_path: Path) -> None:
    error = wrong(gemm(tmp_path, old, new))
    assert "does not compute region @gemm_bias_relu at M=" in error.message


def test_a_sequence_of_launches(tmp_path: Path) -> None:
    target = region(add_relu("[B, S, D]", "[D]"))
    assert len(tried(instance(sequence_file(tmp_path), target))) == 2
    wrong(instance(sequence_file(tmp_path, "x[i, j]"), target))


def test_what_the_simulator_finds_is_told(tmp_path: Path) -> None:
    """Columns that no block writes are no wrong numbers, but a finding."""
    file = written(tmp_path)
    text = file.read_text("utf-8").replace("T.ceildiv(N, 128)]", "1]")
    file.write_text(text, "utf-8")
    error = wrong(instance(file, region(add_relu())))
    assert "Unwritten: " in error.message
    assert error.notes


def test_a_region_that_is_too_large_is_tried_by_its_pattern(tmp_path: Path) -> None:
    large = region(add_relu("[8192, 8192]", "[8192]"))
    assert [w.split("=")[0] for w in tried(instance(written(tmp_path), large))] == ["M", "M"]
    wrong(instance(written(tmp_path, value="x[i, j]"), large))
    assert RIGHT != "x[i, j]"


ATTENTION = "examples/tile/attention_sm90_d128.py"
CAUSAL = (ROOT / "examples" / "causal_attention.mlir").read_text("utf-8").replace("128", "64")
"""Of 64 features, of which the simulator has half as many."""


def attention(path: Path, facts: str) -> Instance:
    """The causal kernel of the examples, which counts queries from the last key, for its graph."""
    rows = CAUSAL.replace("[B, H, M, 64]", "[BH, SQ, 64]").replace("[B, H, N, 64]", "[BH, SK, 64]")
    head, brace, body = rows.partition(" {\n  %0")
    assert brace
    (path / "rows.mlir").write_text(head + facts + brace + body, "utf-8")
    text = (ROOT / ATTENTION).read_text("utf-8")
    one = "causal and d == 64 and not persistent"
    replaces = f'name=title, replaces="rows.mlir" if {one} else None)'
    assert "name=title)" in text
    file = path / "attention_by_hand.py"
    file.write_text(text.replace("name=title)", replaces), "utf-8")
    (own,) = registered(str(file))
    (found,) = variants(own, region(CAUSAL))
    assert isinstance(found, Instance)
    return found


def test_attention_that_counts_from_the_other_end_is_refused(tmp_path: Path) -> None:
    """The graph's first query sees the first key; the kernel's last query sees the last."""
    error = wrong(attention(tmp_path, ""))
    assert "does not compute region @causal_attention at B=3, H=5, M=2, N=3: " in error.message


def test_attention_of_equal_lengths_is_right(tmp_path: Path) -> None:
    made = attention(tmp_path, "\n    assuming (SQ == SK)")
    assert "M - N == 0" in [str(fact) for fact in made.launch.facts.data]
    assert len(tried(made)) == 2


@pytest.mark.parametrize("when", ["M * N >= 3538944", "M >= 9000, N >= 9000, N mod 8 == 0"])
def test_what_wants_large_sizes_is_tried_at_smaller_ones(when: str, tmp_path: Path) -> None:
    assert len(tried(instance(written(tmp_path, when=when), region(add_relu())))) == 2
    made = instance(written(tmp_path, value="x[i, j]", when=when), region(add_relu()))
    with pytest.raises(PolycError, match="cannot be tried") as caught:
        tried(made)
    assert caught.value.kind == "NoTrial"
    (note,) = caught.value.notes
    assert note.startswith("at sizes that it does not ask for: by_hand does not compute region @f")


def test_nothing_is_tried_of_one_large_size(tmp_path: Path) -> None:
    made = instance(written(tmp_path, when="M == 77777"), region(add_relu()))
    with pytest.raises(PolycError, match="cannot be tried") as caught:
        tried(made)
    assert caught.value.kind == "NoTrial"
    assert caught.value.notes == ()


def test_what_is_not_lowered_at_the_sizes_of_a_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = instance(written(tmp_path), region(add_relu("[6, 40]", "[40]")))
    assert refused(made) is None

    def fails(module: GpuModuleOp) -> GpuModuleOp:
        if module is made.module:
            raise PolycError("NoRoles", "there are none")
        return finished(module)

    monkeypatch.setattr(trial, "finished", fails)
    assert refused(made) == "at the region's sizes it is refused, NoRoles: there are none"


def test_what_is_never_lowered_is_told(tmp_path: Path) -> None:
    """wgmma does not see what threads wrote, whatever the sizes are."""
    with pytest.raises(PolycError) as caught:
        refused(gemm(tmp_path, 'loader="tma"', 'loader="register"'))
    assert caught.value.kind == "NoRoles"
