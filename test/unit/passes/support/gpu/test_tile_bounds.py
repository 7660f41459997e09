"""Coordinates of whole tiles need no guard, and those of others keep it (S9.2)."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.test.support.gpu_text import find, parsed, run

KERNEL = """
gpu.module @m arch "sm_90a" symbols [N]{assuming} {{
  gpu.kernel @k(%x: !gpu.global<[{size}], f32> = tensor 0, %N: index = symbol N) threads 128 {{
    %size = {value}
    gpu.tile_loop (%row, %at, %tile) = [%size, %size] tile <1, 128> raster "row" 1 {{
      %thread = gpu.thread_id
      %i = affine.apply affine_map<(d0)[s0] -> ({place})> (%thread)[%at]
      %v = gpu.load_global %x[%i : index] : !gpu.global<[{size}], f32> -> f32
      gpu.store_global %v, %x[%i : index] : f32, !gpu.global<[{size}], f32>
    }}
    gpu.return
  }}
}}
"""


def guards(**changes: str) -> int:
    """The accesses of a kernel that are guarded."""
    given = {
        "size": "512",
        "value": "arith.constant 512 : index",
        "place": "d0 + s0",
        "assuming": "",
        **changes,
    }
    if given["size"] == "N":
        given["value"] = "affine.apply affine_map<(d0) -> (d0)> (%N)"
    module = run(parsed(KERNEL.format(**given)), "gpu-legalize-access")
    loads = [op.predicate for op in find(module, hw.LoadGlobalOp)]
    stores = [op.predicate for op in find(module, hw.StoreGlobalOp)]
    return sum(predicate is not None for predicate in (*loads, *stores))


def test_a_tile_that_divides_its_axis_has_no_guard() -> None:
    assert guards() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"size": "500", "value": "arith.constant 500 : index"},
        {"place": "d0 + s0 + 1"},
        {"place": "d0 * 2 + s0"},
        {"place": "d0 + s0 * 2"},
        {"size": "N"},
    ],
    ids=["a tail", "an offset", "steps of two", "twice the place", "an open size"],
)
def test_what_may_be_outside_keeps_its_guard(changes: dict[str, str]) -> None:
    assert guards(**changes) == 2


def test_an_assumption_is_enough() -> None:
    assert guards(size="N", assuming=" assuming (N mod 128 == 0)") == 0


@pytest.mark.parametrize(
    ("place", "outside"),
    [
        ("(d0 + s0 + 1) floordiv 2 - (d0 + s0 + 511) floordiv 512", 0),  # of an image made larger
        ("(d0 + s0) floordiv 2 + 1", 1),  # one too far at the end
        ("(d0 + s0) floordiv 2 - 1", 1),  # one in front
        ("511 - d0 - s0", 1),  # in the other order, and all of twice as many
    ],
    ids=["between", "behind", "in front", "turned"],
)
def test_a_place_between_the_ends_has_no_guard(place: str, outside: int) -> None:
    """A load of 256 elements for each of 512 points; isl decides it for all of these."""
    text = KERNEL.format(
        size="512", value="arith.constant 512 : index", place="d0 + s0", assuming=""
    )
    text = text.replace("%v = gpu.load_global %x[%i", "%v = gpu.load_global %y[%j")
    text = text.replace(": !gpu.global<[512], f32> -> f32", ": !gpu.global<[256], f32> -> f32")
    text = text.replace(" = tensor 0,", " = tensor 0, %y: !gpu.global<[256], f32> = tensor 1,")
    at = f"      %j = affine.apply affine_map<(d0)[s0] -> ({place})> (%thread)[%at]\n"
    text = text.replace("      %v = ", f"{at}      %v = ")
    module = run(parsed(text), "gpu-legalize-access")
    (load,) = find(module, hw.LoadGlobalOp)
    assert (load.predicate is not None) == bool(outside)
