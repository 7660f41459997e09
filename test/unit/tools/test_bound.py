"""Programs that keep their parameters: what these alone decide is made once a GPU, and shared."""

# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.imported import Imported
from polyc.passes.finish import finished
from polyc.playback.gpu import simulate
from polyc.runtime import const_pool
from polyc.runtime.program import Program
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.gpu_producers import FakeTorch, Tensor
from polyc.test.support.in_place import in_place
from polyc.tools.bound import halves
from polyc.tools.load import parsed

# A folded scale, which is made once, and a bias, which is read as it is.
TEXT = """
frontend.graph @norm(%x: !frontend.tensor<[M, 8], f32>) -> !frontend.tensor<[M, 8], f32> {
  %v = frontend.parameter "var" : !frontend.tensor<[8], f32>
  %b = frontend.parameter "bias" : !frontend.tensor<[8], f32>
  %0 = frontend.elementwise rsqrt %v : !frontend.tensor<[8], f32>
  %1 = frontend.elementwise mul %x, %0
      : (!frontend.tensor<[M, 8], f32>, !frontend.tensor<[8], f32>) -> !frontend.tensor<[M, 8], f32>
  %2 = frontend.elementwise add %1, %b
      : (!frontend.tensor<[M, 8], f32>, !frontend.tensor<[8], f32>) -> !frontend.tensor<[M, 8], f32>
  frontend.output %2 : !frontend.tensor<[M, 8], f32>
}
"""
PARAMS = {"var": np.full(8, 4, np.float32), "bias": np.ones(8, np.float32)}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeCuda]:
    monkeypatch.delenv("POLYC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield from in_place(FakeCuda(), monkeypatch)


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    monkeypatch.setitem(sys.modules, "torch", made := FakeTorch(cuda))
    return made


def test_what_is_made_is_made_once_and_what_it_is_made_of_goes(
    cuda: FakeCuda, torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "norm.safetensors"
    polyc.write_params(path, PARAMS)
    job = polyc.load(TEXT, "sm_90a", params=path)
    assert job.names == ("x", "C") and job.described.made == ("", "", "made0")
    assert job.described.pooled == ("", "bias", "")
    for _ in range(2):
        job.run([torch.zeros(3, 8)])
    made, first, second = cuda.launches
    assert made.kernel.startswith("norm_made") and first.kernel == second.kernel
    # The variance is on the GPU no more, what was made of it is.
    var, scale = made.values[:2]
    gc.collect()
    assert var in cuda.freed and scale not in cuda.freed
    assert scale in first.values and scale in second.values
    # Another program of the same text and file makes nothing; on another GPU it is made there.
    same = polyc.compile(TEXT, "sm_90a", params=str(path))
    same(torch.zeros(5, 8))
    assert [one.kernel for one in cuda.launches[3:]] == [first.kernel]
    assert scale in cuda.launches[3].values
    same(torch.zeros(5, 8, index=1))
    assert [one.kernel for one in cuda.launches[4:]] == [made.kernel, first.kernel]
    other = polyc.load(TEXT, "sm_90a", params=PARAMS)
    other.run([torch.zeros(3, 8)])
    assert [one.kernel for one in cuda.launches[6:]] == [made.kernel, first.kernel]
    monkeypatch.setattr(Program, "results", [])  # of the kernels that ran, nothing is asked here
    report = same.report
    assert "made of parameters once, when they are bound: made0" in report
    there = len(const_pool._POOL)
    del job, same, other
    gc.collect()
    assert len(const_pool._POOL) < there and scale in cuda.freed and not cuda.freed_in_use


def test_all_that_is_wrong_of_both_is_said_once(cuda: FakeCuda) -> None:
    wrong = {"var": np.ones(7, np.float32), "more": PARAMS["bias"]}
    for make in (polyc.load, polyc.compile):
        with pytest.raises(PolycError) as caught:
            make(TEXT, "sm_90a", params=wrong)
        assert caught.value.kind == "BadParams"
        assert caught.value.message == (
            "params does not fit norm: var has shape [7], and the program takes [8], and 2 more "
            "faults"
        )
        assert caught.value.notes == ("bias is missing, f32 [8]", "nothing asks for more")


def test_a_plan_of_the_users_is_for_the_whole_graph(cuda: FakeCuda, tmp_path: Path) -> None:
    whole = polyc.compile(TEXT, "sm_90a")
    kept = polyc.compile(TEXT, "sm_90a", params=PARAMS, plan=whole.plan)
    assert kept.program().described.made == ("", "", "")
    assert kept.program().names == ("x", "C")


def test_one_of_several_graphs(cuda: FakeCuda, torch: FakeTorch) -> None:
    text = TEXT + TEXT.replace("@norm", "@again")
    job = polyc.load(text, "sm_90a", name="again", params=PARAMS)
    job.run([torch.zeros(3, 8)])
    assert [one.kernel.partition("_")[0] for one in cuda.launches] == ["again"] * 2
    with pytest.raises(PolycError, match="expected one graph, found norm, again; name one"):
        polyc.load(text, "sm_90a", params=PARAMS)


def test_tiles_keep_parameters_as_they_are(cuda: FakeCuda, torch: FakeTorch) -> None:
    module = polyc.compile(TEXT, "sm_90a").program().module
    job = polyc.load(module, params=PARAMS)
    job.run([torch.zeros(3, 8)])
    assert job.names == ("x", "C") and len(cuda.launches) == 1


def test_the_threads_of_both_compute_the_graph() -> None:
    main, before = halves(parsed(TEXT.replace("rsqrt", "neg").encode(), "text"), "sm_80")
    assert before is not None and before.described.pooled == ("var",)
    (made,) = simulate(finished(before.module()), [PARAMS["var"]], {}).outputs
    assert (made == -PARAMS["var"]).all() and made.dtype == np.float32
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    (y,) = simulate(finished(main.module()), [x, PARAMS["bias"], made], {"M": 5}).outputs
    assert (y == 1 - 4 * x).all()


def test_sparing_parameters_are_kept_by_somebody_else() -> None:
    """A small scale is made once of them, and a large weight by each call."""
    kind, row = "!frontend.tensor<[256, 256], f32>", "!frontend.tensor<[256], f32>"
    text = f"""frontend.graph @scaled(%x: {kind}) -> ({kind}, {row}) {{
  %w = frontend.parameter "w" : {kind}
  %s = frontend.parameter "s" : {row}
  %0 = frontend.elementwise exp %w : {kind}
  %1 = frontend.gemm %x, %0 {{acc = f32}} : ({kind}, {kind}) -> {kind}
  %2 = frontend.elementwise exp %s : {row}
  %3 = frontend.elementwise mul %1, %2 : ({kind}, {row}) -> {kind}
  %4 = frontend.reduce max %3 axes [0] : {kind} -> {row}
  frontend.output %3, %4 : {kind}, {row}
}}
"""
    given = {"w": np.ones((256, 256), np.float32), "s": np.ones(256, np.float32)}
    whole = const_pool.Params.of(given)
    assert not whole.sparing and whole.sparingly().sparing
    assert whole.joined(None) is whole and not whole.joined(const_pool.Params.of({})).sparing
    for params, shapes in ((whole, [(256,), (256, 256)]), (whole.sparingly(), [(256,)])):
        described = polyc.compile(text, "sm_90a", params=params).program().described
        made = [
            tuple(d.constant() for d in dims)
            for name, dims in zip(described.made, described.shapes, strict=False)
            if name
        ]
        assert sorted(made) == shapes
        loaded = polyc.load(text, "sm_90a", params=params).described
        assert loaded.made == described.made


def test_what_is_donated_is_let_go_once_it_is_made(cuda: FakeCuda, torch: FakeTorch) -> None:
    """The variance, of which the scale is made; the bias is read where it lies."""
    places = {name: torch.zeros(8).pointer for name in PARAMS}
    given = {name: Tensor(place, (8,)) for name, place in places.items()}
    seen = {name: weakref.ref(one) for name, one in given.items()}
    imported = Imported(parsed(TEXT.encode(), "t.mlir"), given)
    compiled = polyc.compile(imported, "sm_90a", donate=True)
    assert not given and not imported.parameters
    for m in (3, 5):
        compiled(torch.zeros(m, 8))
    gc.collect()
    assert seen["var"]() is None and seen["bias"]() is not None
    assert [one.kernel.startswith("norm_made") for one in cuda.launches] == [True, False, False]
    compiled.refresh()
    with pytest.raises(PolycError, match="parameter var was donated"):
        compiled(torch.zeros(3, 8))
    with pytest.raises(PolycError, match="donate is about params"):
        polyc.compile(TEXT, "sm_90a", donate=True)
