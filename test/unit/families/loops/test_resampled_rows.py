"""Rows that are resampled: what threads of several rows of a vector share, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.resampled_rows import ResampledRows, find_resampled_rows, tiles
from polyc.families.loops.windows import WindowTile
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import assert_variants_agree
from polyc.test.support.sketch import Sketch, dim
from polyc.test.support.split_programs import wanted_of, written
from polyc.test.unit.families.loops.test_lines import Size, lowered


def resized(
    image: tuple[Size, int, int, int],
    to: tuple[int, int],
    mode: str = "linear",
    element: Attribute = f16,
    coordinates: str = "half_pixel",
) -> ModuleOp:
    """An image as it lies in NHWC, resized, with work after it and a second operand."""
    s = Sketch("resized", element)
    x = s.input("x", *image)
    sizes = [dim(size) for size in to]
    op = frontend.ResizeOp(x, [1, 2], sizes, mode=mode, coordinates=coordinates)
    skip = s.input("skip", image[0], *to, image[3])
    return s.done(y=s.fn("add", s.add(op), skip))


def beside(element: Attribute = f16) -> ModuleOp:
    """The sum of each row and the next one."""
    s = Sketch("beside", element)
    x = s.input("x", 2, 3, 19, 16)
    parts = [
        s.add(frontend.SliceOp(x, [0, 0, at, 0], [2, 3, 18 + at, 16], [1, 1, 1, 1]))
        for at in (0, 1)
    ]
    return s.done(y=s.fn("add", *parts))


def rows_of(module: ModuleOp) -> ResampledRows | None:
    return find_resampled_rows(find_loops(only(lowered(module, "region"), KernelOp)))


def planned(
    module: ModuleOp, folder: Path, last: str, own: WindowTile, arch: str = "sm_90a", **fields: Any
) -> ModuleOp:
    """The program whose region resamples rows, by a tile of so many rows a thread."""
    plan = {
        "region": only(lowered(module, "region"), KernelOp).sym_name.data,
        "algo_choice": {"loops": "resampled_rows"},
        "tile": [own.rows, own.columns, 1],
        "warp_tile": own.warp_tile,
        "vectorize": own.vector,
    }
    return lowered(module, last, written(folder, {**plan, **fields}), arch)


MODULES = {
    "twice": resized((2, 3, 4, 16), (6, 8)),
    "twice, nearest": resized((1, 4, 8, 8), (8, 16), "nearest"),
    "half as large again": resized((1, 2, 10, 24), (3, 15), "linear", f32),
    "thrice in bf16": resized((1, 2, 5, 8), (6, 15), "linear", bf16),
    "corners": resized((1, 2, 5, 8), (3, 9), "linear", f32, "align_corners"),
    "four times": resized((1, 2, 3, 8), (8, 12), "linear"),
    "a part of a tile": resized((1, 3, 37, 40), (6, 74)),
    "beside": beside(),
}
VECTORS: dict[Attribute, int] = {f16: 8, bf16: 8, f32: 4}


def vector_of(module: ModuleOp) -> int:
    kernel = only(lowered(module, "region"), KernelOp)
    return VECTORS[kernel.outs.data[0].element_type]


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", MODULES)
def test_what_is_resampled_is_what_the_graph_means(name: str, tmp_path: Path) -> None:
    module = MODULES[name]
    inputs, wanted = wanted_of(module, {})
    found = rows_of(module)
    assert found is not None
    small = {one.outputs: one for one in tiles(found, vector_of(module))}
    assert small
    for number, own in small.items():
        folder = tmp_path / str(number)
        folder.mkdir()
        assert_variants_agree(gpu_module_of(planned(module, folder, "gpu", own)), inputs, wanted)


def test_an_infinity_and_a_number_that_is_none_stay_where_they_are(tmp_path: Path) -> None:
    """What is outside is the end, not a number times nothing."""
    module = resized((1, 1, 8, 4), (2, 16), "linear", f32)
    inputs, _ = wanted_of(module, {})
    x = next(a for a in inputs if a.shape == (1, 1, 8, 4))
    x[0, 0, 2, 1], x[0, 0, 7, 0] = np.inf, np.nan
    found = rows_of(module)
    assert found is not None
    own = next(one for one in tiles(found, 4) if one.outputs == 4)
    built = gpu_module_of(planned(module, tmp_path, "gpu", own))
    result = simulate(built, inputs, {}, built.dispatch().variants()[0].variant_name)
    result.check()
    (y,) = result.outputs
    off = [[i for i, v in enumerate(y[0, 0, :, c]) if not np.isfinite(v)] for c in range(4)]
    assert off == [[13, 14, 15], [3, 4, 5, 6], [], []]


def test_a_vector_comes_once_for_the_rows_that_read_it(tmp_path: Path) -> None:
    module = resized((8, 32, 32, 128), (64, 64))
    found = rows_of(module)
    assert found is not None
    # Two rows of the image; the other operand is read once anyway.
    assert [len(one.reads) for one in found.reads] == [2, 2]
    own = next(one for one in tiles(found, 8) if one.outputs == 4)
    assert [one.span(4) for one in found.reads] == [4, 4]
    assert (own.rows, own.columns) == (64, 128)
    text = "".join(cuda_units(gpu_module_of(planned(module, tmp_path, "gpu", own))))
    # A place between the ends needs no guard.
    assert "load_global_nc_f16x8(" in text and "_if(" not in text


def test_it_is_chosen_where_it_takes_less() -> None:
    s = Sketch("twice")
    x, sizes = s.input("x", "N", 64, 64, 128), [dim(128), dim(128)]
    op = frontend.ResizeOp(x, [1, 2], sizes, mode="linear")
    plans = find(lowered(s.done(y=s.add(op)), "plan"), ScheduleOp)
    assert plans[0].resamples_rows and plans[0].variant.data.startswith("rows_")
    assert not plans[-1].resamples_rows  # Of what begins at any address.


@pytest.mark.parametrize(
    "module",
    [
        resized((1, 4, 9, 8), (2, 3)),  # what rows read is apart
        resized((1, 2, 90, 8), (2, 128)),  # 64 neighbours have 45 elements
        resized((1, 4, 8, 8), (4, 8), "nearest"),  # row by row
    ],
    ids=["apart", "long period", "plain"],
)
def test_what_shares_nothing_is_refused(module: ModuleOp, tmp_path: Path) -> None:
    found = rows_of(module)
    assert found is None or not list(tiles(found, 8))
    with pytest.raises(PolycError, match="share nothing that they read"):
        planned(module, tmp_path, "plan", WindowTile(256, 8, 4, 64, 8))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"warp_tile": [128, 8]}, "rows are resampled by 64x16 a warp"),
        ({"tile": [96, 16, 1], "warp_tile": [48, 16]}, "3 rows of a vector of 8"),
        ({"split_k": 2}, "asks for a split_k"),
    ],
)
def test_plans_that_resampled_rows_do_not_have_are_refused(
    fields: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError, match=why):
        planned(MODULES["twice"], tmp_path, "plan", WindowTile(128, 16, 4, 64, 8), **fields)


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["twice", "half as large again", "four times", "beside"])
def test_kernels_compile_without_a_spill(name: str, arch: str, tmp_path: Path) -> None:
    module = MODULES[name]
    found = rows_of(module)
    assert found is not None
    for own in {one.outputs: one for one in tiles(found, vector_of(module))}.values():
        folder = tmp_path / str(own.outputs)
        folder.mkdir()
        program = Program.compile(planned(module, folder, "gpu", own, arch))
        assert program.kernels
        assert all(info.spill_bytes == 0 for info in program.kernels.values())
