"""Forms of attention: what their graphs mean, and that PyTorch's versions mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from polyc.bench import attention_forms as bench
from polyc.bench import graphs, in_torch
from polyc.dialects.frontend import GraphOp
from polyc.playback import frontend
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_forms import CAP, FORMS, Heads
from polyc.test.support.gpu_text import only

SMALL = Heads(queries=4, keys=2, width=16)
TOKENS = 21


def graph_of(name: str, causal: bool = True) -> GraphOp:
    return only(FORMS[name].module(causal, SMALL), GraphOp)


def drawn(graph: GraphOp, sizes: dict[str, int]) -> list[Any]:
    """Random inputs, of which positions are what they are named for."""
    rng = np.random.default_rng(3)
    found: list[Any] = []
    for spec in graph.inputs:
        shape = [d.evaluate(sizes) for d in spec.type.dims]
        made = rng.standard_normal(shape)
        if spec.name in ("rows", "columns"):
            made = np.arange(TOKENS).reshape(shape)
        narrow = str(spec.type.element_type) == "f16"
        found.append(made.astype(np.float16 if narrow else np.float32))
    return found


def played(name: str, inputs: Sequence[Any], causal: bool = True) -> Any:
    graph = graph_of(name, causal)
    (found,) = frontend.run(graph, inputs, FORMS[name].symbols(TOKENS))
    return found.astype(np.float64)


def attended(
    q: Any, k: Any, v: Any, bias: Any = 0.0, causal: bool = True, cap: float = np.inf
) -> Any:
    """Attention of heads by its definition, in f64."""
    k, v = (np.repeat(x.astype(np.float64), len(q) // len(k), 0) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores = (scores if cap == np.inf else cap * np.tanh(scores / cap)) + bias
    if causal:
        scores = np.where(np.tri(TOKENS, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def near(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


def turned(x: Any, cos: Any, sin: Any, pairs: bool) -> Any:
    """Rotary positions by complex numbers."""
    half = x.shape[-1] // 2
    parts = (slice(0, None, 2), slice(1, None, 2)) if pairs else (slice(half), slice(half, None))
    first, second = parts
    angle = cos[..., first] + 1j * sin[..., first]
    made = (x[..., first] + 1j * x[..., second]) * angle
    found = np.empty(x.shape)
    found[..., first], found[..., second] = made.real, made.imag
    return found.astype(np.float16)


@pytest.mark.parametrize("name", ["rope_halves", "rope_pairs"])
def test_rotary_positions_are_products_of_complex_numbers(name: str) -> None:
    pairs = FORMS[name].interleaved
    q, k, v, *_ = drawn(graph_of(name), {"T": TOKENS})
    angles = np.random.default_rng(1).random((TOKENS, 8)) * 6
    angles = np.repeat(angles, 2, 1) if pairs else np.concatenate([angles] * 2, 1)
    tables = [f(angles).astype(np.float16) for f in (np.cos, np.sin)]
    found = played(name, [q, k, v, *tables])
    cos, sin = tables
    near(found, attended(turned(q, cos, sin, pairs), turned(k, cos, sin, pairs), v))


@pytest.mark.parametrize("causal", [True, False])
def test_slopes_times_how_far_a_key_is(causal: bool) -> None:
    q, k, v, slopes, rows, columns = drawn(graph_of("alibi"), {"T": TOKENS})
    apart = rows - columns if causal else np.abs(rows - columns)
    found = played("alibi", [q, k, v, slopes, rows, columns], causal)
    near(found, attended(q, k, v, -slopes * apart, causal))
    if causal:
        near(found, played("alibi_keys", [q, k, v, slopes * columns]))


@pytest.mark.parametrize("causal", [True, False])
def test_a_soft_cap_is_its_definition(causal: bool) -> None:
    q, k, v = drawn(graph_of("soft_cap"), {"T": TOKENS})
    q = (q * np.float16(40)).astype(np.float16)
    near(played("soft_cap", [q, k, v], causal), attended(q, k, v, 0.0, causal, CAP))


def test_merged_heads_are_heads_side_by_side() -> None:
    q, k, v = drawn(graph_of("plain"), {"T": TOKENS})
    rows = [x.transpose(1, 0, 2).reshape(1, TOKENS, -1) for x in (q, k, v)]
    found = played("merged_heads", rows).reshape(TOKENS, SMALL.queries, SMALL.width)
    np.testing.assert_array_equal(found.transpose(1, 0, 2), played("plain", [q, k, v]))


def test_norms_divide_by_the_root_of_the_mean_square() -> None:
    q, k, v, of_q, of_k = drawn(graph_of("qk_norm"), {"T": TOKENS})

    def normed(x: Any, weight: Any) -> Any:
        wide = x.astype(np.float64)
        made = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * weight
        return made.astype(np.float16)

    near(played("qk_norm", [q, k, v, of_q, of_k]), attended(normed(q, of_q), normed(k, of_k), v))


def test_a_layer_with_a_packed_projection_is_the_same_layer() -> None:
    x, cos, sin, norm, wq, wk, wv, wo = drawn(graph_of("layer"), {"T": TOKENS})
    packed = [x, cos, sin, norm, np.concatenate([wq, wk, wv]), wo]
    np.testing.assert_allclose(
        played("layer_packed", packed), played("layer", [x, cos, sin, norm, wq, wk, wv, wo])
    )


def test_cases_are_what_is_asked_for_where_it_makes_sense() -> None:
    found = bench.cases(["layer", "alibi"], ["full", "causal"])
    wanted = [("layer", "causal"), ("alibi", "full"), ("alibi", "causal")]
    assert [(form.name, mask) for form, mask in found] == wanted


def test_a_dry_run_says_what_a_form_becomes(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--dry", "--forms", "plain", "--masks", "causal", "--lengths", "2048"]) == 0
    first, kernel = capsys.readouterr().out.splitlines()
    assert first.startswith("plain causal 2048: ") and "1 kernels, modelled" in first
    assert first.endswith("spills none") and kernel.startswith("    plain tma_paired: ")


@pytest.mark.turns(3)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", FORMS)
def test_what_pytorch_runs_means_the_same(
    name: str, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eager, by its ops and by flex_attention, in f32 on the CPU."""
    torch = pytest.importorskip("torch")
    form = FORMS[name]
    if causal not in form.causal:
        pytest.skip(f"{name} is not asked so")
    monkeypatch.setattr(bench, "HEADS", SMALL)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    graph, sizes = graph_of(name, causal), form.symbols(TOKENS, 2)
    given = bench.given(torch, form, TOKENS, "cpu")
    names = [spec.name for spec in graph.inputs]
    inputs = [
        given[n].reshape(x.shape).numpy().astype(x.dtype) if n in given else x
        for n, x in zip(names, drawn(graph, sizes), strict=True)
    ]
    wide = [torch.from_numpy(x).float() for x in inputs]
    exact = in_torch.function(torch, graph, sizes, wide=True)(*wide)
    other = bench.flexible(torch, form, graph, sizes, causal, wide=True)(*wide)
    assert graphs.error_of(torch, other, exact, exact) < 0.01
    wanted = meant(form.module(causal, SMALL), inputs, sizes)
    assert_agree([out.half().numpy() for out in exact], wanted)
