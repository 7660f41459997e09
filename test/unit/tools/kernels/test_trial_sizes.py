"""The sizes at which a kernel by hand is tried: with tails, within its conditions, small."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.by_hand import add_relu, instance, product, region, variants, written
from polyc.test.support.root import ROOT
from polyc.tools.kernels.instance import Instance
from polyc.tools.kernels.registered import registered
from polyc.tools.kernels.trial_sizes import MOST, trial_sizes

GEMM = str(ROOT / "examples" / "kernels" / "gemm.py")
BIASED = (ROOT / "examples" / "gemm_bias_relu.mlir").read_text("utf-8")


def gemm(text: str) -> Instance:
    found = variants(registered(GEMM)[0], region(text))[0]
    assert isinstance(found, Instance)
    return found


def test_less_than_a_tile_and_several_with_a_tail(tmp_path: Path) -> None:
    small, large = trial_sizes(instance(written(tmp_path), region(add_relu())))
    assert small["M"] < 4 and small["N"] < 128
    assert large["M"] > 4 and large["M"] % 4
    assert large["N"] > 128 and large["N"] % 128


def test_a_loop_s_ring_goes_round() -> None:
    made = gemm(BIASED)
    small, large = trial_sizes(made)  # none of no steps, for which the kernel asks K >= 1
    for sizes in (small, large):
        assert all(fact.holds(sizes) for fact in made.launch.facts.data)
    assert large["K"] > 4 * 64 and large["K"] % 64
    assert large["M"] > 128 and large["N"] > 160


def test_nothing_is_summed_where_that_is_allowed(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "kernels" / "gemm.py").read_text("utf-8")
    assert ", K >= 1" in text
    text = text.replace(", K >= 1", "").replace("../gemm_bias_relu.mlir", "pattern.mlir")
    (tmp_path / "pattern.mlir").write_text(BIASED, "utf-8")
    file = tmp_path / "gemm_without_steps.py"
    file.write_text(text, "utf-8")
    made = variants(registered(str(file))[0], region(BIASED))[0]
    assert isinstance(made, Instance)
    assert [sizes["K"] for sizes in trial_sizes(made)][-1] == 0


def test_of_a_product_of_sizes_one_is_cut(tmp_path: Path) -> None:
    made = instance(written(tmp_path), region(add_relu("[B, S, D]", "[D]")))
    small, large = trial_sizes(made)
    assert small["B"] * small["S"] >= 1
    assert large["B"] * large["S"] > 4 and large["D"] > 128
    assert prod(large.values()) < 4096


def test_constants_have_one_trial(tmp_path: Path) -> None:
    assert trial_sizes(instance(written(tmp_path), region(add_relu("[6, 40]", "[40]")))) == [{}]


def test_conditions_that_join_sizes(tmp_path: Path) -> None:
    made = instance(written(tmp_path, when="M == N, N mod 16 == 0"), region(add_relu()))
    for sizes in trial_sizes(made):
        assert sizes["M"] == sizes["N"] and sizes["N"] % 16 == 0


@pytest.mark.parametrize("when", ["M * N >= 3538944", "M >= 8192, N >= 8192"])
def test_no_small_sizes(when: str, tmp_path: Path) -> None:
    made = instance(written(tmp_path, when=when), region(add_relu()))
    with pytest.raises(PolycError) as caught:
        trial_sizes(made)
    assert caught.value.kind == "NoTrial"
    assert str(MOST) in caught.value.message
    assert "write conditions that small sizes satisfy too" in caught.value.message


def test_a_region_in_a_larger_graph(tmp_path: Path) -> None:
    """Symbols that only other regions have are there, and say nothing."""
    target = region(product())
    assert target.symbol_names == ("M", "K", "N")
    own = instance(written(tmp_path), region(add_relu("[M, N]", "[N]")))
    assert {s for sizes in trial_sizes(own) for s in sizes} == {"M", "N"}
