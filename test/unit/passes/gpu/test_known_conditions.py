"""``gpu-known-conditions``: what is decided, what is not, and that every step is the same (T2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, scf

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import find, kernel, only, printed, run, unchanged
from polyc.test.support.root import ROOT
from polyc.test.support.turns import examples
from polyc.test.unit.passes.gpu.test_split_steps import trace

PASS = "gpu-known-conditions"
ACC = "!gpu.fragment<[64, 64], f32>"
ARGS = "%n: index = symbol N, %a: index = symbol A, %b: index = symbol B"


def around(inner: str) -> str:
    """A kernel with numbers, and a fragment that is filled where a condition holds."""
    numbers = "\n".join(f"%c{i} = arith.constant {i} : index" for i in (0, 1, 2, 3, 64))
    return kernel(
        f"%zero = arith.constant 0.0 : f32\n%each = gpu.fragment : {ACC}\n"
        f"%cut = gpu.fragment : {ACC}\n%whole = gpu.fragment : {ACC}\n{numbers}\n{inner}",
        ARGS,
    )


def fill(name: str) -> str:
    return f"gpu.fill %zero, %{name} : {ACC}"


def asked(condition: str, low: str = "%c1", high: str = "%n") -> str:
    """A loop over %i whose branch asks %p."""
    return around(
        f"scf.for %i = {low} to {high} step %c1 {{\n{fill('each')}\n{condition}\n"
        f"scf.if %p {{ {fill('cut')} }} else {{ {fill('whole')} }} }}"
    )


STEPS = "%steps = affine.apply affine_map<(n) -> ((n + 63) floordiv 64)> (%n)\n"
LEFT = """%k = affine.apply affine_map<(i, n) -> ((n - i - 1) * 64)> (%i, %steps)
%left = arith.subi %n, %k : index
%p = arith.cmpi slt, %left, %c64 : index"""

DECIDED = {
    "a later step has no tail": (
        asked(LEFT, high="%steps").replace("scf.for", f"{STEPS}scf.for"),
        False,
    ),
    "below the loop's end": (asked("%p = arith.cmpi slt, %i, %n : index"), True),
    "at the loop's beginning or behind": (asked("%p = arith.cmpi sge, %i, %c1 : index"), True),
    "a size is not negative": (asked("%p = arith.cmpi slt, %a, %c0 : index"), False),
    "one side of a conjunction": (
        asked("%q = arith.cmpi slt, %a, %c0 : index\n%r = arith.cmpi slt, %i, %b : index\n"
              "%p = arith.andi %q, %r : i1"),
        False,
    ),
    "the greater of two": (
        asked("%most = arith.maxsi %i, %a : index\n%p = arith.cmpi sge, %most, %c1 : index"),
        True,
    ),
    "one of two ends": (
        asked("%p = arith.cmpi slt, %i, %n : index", high="%end").replace(
            "scf.for", "%end = arith.minsi %n, %a : index\nscf.for"
        ),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), DECIDED.values(), ids=DECIDED)
def test_a_condition_that_is_known(text: str, value: bool) -> None:
    """Its branch goes, and one side of it stays."""
    module = run(text, PASS)
    assert not find(module, scf.IfOp)
    names = [op.fragment.name_hint for op in find(module, tile.FillOp)]
    assert names == ["each", "cut" if value else "whole"]


OPEN = {
    "the first step": asked("%p = arith.cmpi sgt, %i, %c0 : index", low="%c0"),
    "a size that may be less": asked("%p = arith.cmpi slt, %i, %a : index"),
    "a tail in the first step": asked(LEFT, low="%c0", high="%steps").replace(
        "scf.for", f"{STEPS}scf.for"
    ),
    "an equality": asked("%p = arith.cmpi eq, %i, %c0 : index"),
    "outside of all": around(
        f"%p = arith.cmpi sge, %n, %c0 : index\nscf.if %p {{ {fill('cut')} }}"
    ),
}


@pytest.mark.parametrize("text", OPEN.values(), ids=OPEN)
def test_a_condition_that_is_not(text: str) -> None:
    unchanged(text, PASS)


def test_a_branch_says_what_its_ops_may_take_as_known() -> None:
    inner = f"scf.if %q {{ {fill('cut')} }}"
    text = around(
        "%p = arith.cmpi sgt, %a, %c3 : index\nscf.if %p {\n"
        f"%q = arith.cmpi sgt, %a, %c2 : index\n{inner}\n}} else {{\n"
        f"%q = arith.cmpi sgt, %a, %c2 : index\n{inner}\n}}"
    )
    module = run(text, PASS)
    # Of the first side the branch is known; of the other it is not, as %a may be 3.
    assert len(find(module, scf.IfOp)) == 2 and len(find(module, arith.CmpiOp)) == 2


def test_coordinates_in_a_map_are_in_its_tile() -> None:
    body = "\n".join(
        f"%p{bound} = arith.cmpi slt, %c, %c{bound} : index\n"
        f"%y{bound} = arith.select %p{bound}, %x, %zero : f32"
        for bound in (64, 3)
    )
    text = around(
        f"gpu.map %each : {ACC} origin [] ins() outs(%cut : {ACC} affine_map<(i, j) -> (i, j)>, "
        f"%whole : {ACC} affine_map<(i, j) -> (i, j)>) {{\n^bb0(%x: f32):\n"
        f"%c = gpu.tile_index 1\n{body}\ngpu.yield %y64, %y3 : f32, f32 }}"
    )
    module = run(text, PASS)
    assert only(module, arith.SelectOp).result.name_hint == "y3"


def ring(high: str, release: str = "") -> str:
    """Roles that fill a ring in a loop from 0 to ``high``, and read it."""
    flow = 'gpu.copy %A[%c0, %i] to %t slot %c0 loader "tma" signal %ring : !gpu.ring<2> at %i : '
    types = "!gpu.global<[N, A], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 2>"
    text = around(
        "%end = arith.minsi %n, %c1 : index\n%t = gpu.shared_tile : "
        "!gpu.shared<[64, 64], f16, swizzle 128, ring 2>\n"
        "%ring = gpu.ring consumers 1 : !gpu.ring<2>\n"
        "gpu.roles consumers 1 registers [0, 0] single_thread producer {\n"
        f"scf.for %i = %c0 to {high} step %c1 {{\ngpu.ring_acquire %ring[%i] : !gpu.ring<2>\n"
        f"{flow}{types}\n}}\ngpu.yield\n}} consumer {{\n"
        f"scf.for %i = %c0 to {high} step %c1 {{\ngpu.ring_wait %ring[%i] : !gpu.ring<2>\n"
        f"{release}}}\ngpu.yield\n}}"
    )
    return text.replace("@k(", "@k(%A: !gpu.global<[N, A], f16, align 16> = tensor 0, ").replace(
        "threads 128", "threads 256"
    )


@pytest.mark.parametrize(("high", "branches"), [("%c0", 0), ("%c1", 0), ("%end", 2)])
def test_a_ring_used_once_is_in_no_loop(high: str, branches: int) -> None:
    """Of a bound of one step nothing is asked, of one that may be less whether there is one."""
    module = run(ring(high), PASS)
    assert not find(module, scf.ForOp) and len(find(module, scf.IfOp)) == branches
    assert len(find(module, tile.RingWaitOp)) == (high != "%c0")
    run(module, "gpu-check-rings")


def test_a_loop_that_may_go_on_or_releases_stays() -> None:
    unchanged(ring("%c2"), PASS)
    unchanged(ring("%n"), PASS)
    unchanged(ring("%c1", "gpu.ring_release %ring[%i] : !gpu.ring<2>\n"), PASS)


@pytest.mark.parametrize(
    ("high", "reached"), [("%c0", False), ("%c1", True), ("%n", True)], ids=["none", "one", "open"]
)
def test_steps_of_a_ring_that_nothing_reaches_are_taken_out(high: str, reached: bool) -> None:
    """Also where they release slots."""
    module = run(ring(high, "gpu.ring_release %ring[%i] : !gpu.ring<2>\n"), PASS)
    assert bool(find(module, tile.RingWaitOp)) == bool(find(module, scf.ForOp)) == reached


def test_nothing_is_decided_where_nothing_comes_by() -> None:
    """Either result would be right there."""
    found = run(asked("%p = arith.cmpi slt, %i, %n : index", "%c1", "%c0"), PASS)
    assert find(found, arith.CmpiOp)


STEPPED = (ROOT / "examples" / "tile" / "gemm_pipelined.mlir").read_text("utf-8")


@pytest.mark.parametrize("bound", ["constant 0", "constant 64", "constant 128", "minsi %K, %most"])
def test_a_pipeline_of_few_steps_runs(bound: str) -> None:
    """No step, one and two, of a constant bound and of one that is known to be no more."""
    many = 64 if "min" in bound else int(bound.split()[-1])
    text = STEPPED.replace("%zero =", f"%most = arith.constant 64 : index\n%some = arith.{bound} "
                           ": index\n%zero =").replace("to %K step", "to %some step")  # fmt: skip
    m, k, n = 40, 136 if many else 72, 56
    rng = np.random.default_rng(5)
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    found = simulate(only(run(text, *GPU_PASSES), ModuleOp), [a, b], {"M": m, "K": k, "N": n})
    assert not found.findings
    wanted = a[:, :many].astype(np.float32) @ b[:many].astype(np.float32)
    assert np.allclose(found.outputs[0], wanted, rtol=2e-3, atol=2e-3)


def test_twice_is_once() -> None:
    once = printed(run(asked("%p = arith.cmpi slt, %i, %n : index"), PASS))
    assert printed(run(once, PASS)) == once


BOUNDS = st.integers(-3, 3)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(BOUNDS, BOUNDS, BOUNDS, st.sampled_from(["slt", "sle", "sgt", "sge"])),
             min_size=2, max_size=2),
    st.sampled_from(["andi", "ori"]),
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=6,
             max_size=6),
)  # fmt: skip
def test_every_step_does_what_it_did(
    parts: list[tuple[int, int, int, str]], joined: str, low: int, sizes: list[tuple[int, ...]]
) -> None:
    """Random comparisons of the step and sizes, with random sizes."""
    conditions = [
        f"%e{k} = affine.apply affine_map<(i, a) -> (i * {f} + a * {g} + {h})> (%i, %a)\n"
        f"%p{k} = arith.cmpi {word}, %e{k}, %b : index"
        for k, (f, g, h, word) in enumerate(parts)
    ]
    text = asked("\n".join([*conditions, f"%p = arith.{joined} %p0, %p1 : i1"]), low=f"%c{low}")
    before, after = run(text), run(text, PASS)
    for n, a, b in sizes:
        given_sizes = {"n": n, "a": a, "b": b}
        assert trace(after, given_sizes) == trace(before, given_sizes)
