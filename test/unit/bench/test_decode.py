"""Decoding: its cases are for few queries, and its forms read the keys that they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyc.bench import decode
from polyc.bench.decode import FORMS, HEADS, WINDOW, Case
from polyc.bench.modelled import planned
from polyc.cost.time import chosen
from polyc.dialects.frontend import GraphOp
from polyc.dialects.plan import ScheduleOp
from polyc.playback import frontend
from polyc.test.support.gpu_text import find, only, parsed


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_kernels_for_few_queries(form: str) -> None:
    case = Case(4, 8192, 4, 64, 1, form)
    plans = find(planned(case.text("bf16")), ScheduleOp)
    plan = chosen(plans, {"B": case.sequences, "N": case.keys})
    assert plan is not None and plan.of_few_queries


def test_cases_have_names_of_their_own() -> None:
    cases = [
        Case(*sizes, form) for form in FORMS for sizes in ((1, 8192, 4, 64, 1), (2, 64, 1, 64, 8))
    ]
    assert len({case.name for case in cases}) == len(cases)
    assert Case(1, 8192, 4, 128, 1).name == "1x8192 32/8 d128 m1"


def test_a_window_s_bytes_are_of_the_keys_that_it_sees() -> None:
    """What lies before them may be anything; the first of them is the first query's."""
    case = Case(1, WINDOW + 6, 4, 8, 2, "window")
    cut = case.keys - case.seen
    assert cut == 5 and case.read_bytes == 4 * 8 * case.seen * case.features
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((1, heads, rows, 8)).astype(np.float16)
        for heads, rows in ((HEADS, 2), (8, case.keys), (8, case.keys))
    )
    v[:, :, :cut] = np.nan
    sizes = {"B": 1, "N": case.keys}
    graph = only(parsed(case.text("f16")), GraphOp)
    (found,) = frontend.run(graph, [q, k, v], sizes)
    assert np.isfinite(found.astype(np.float32)).all()
    v[:, :, cut] = np.nan
    (found,) = frontend.run(graph, [q, k, v], sizes)
    assert np.isnan(found[:, :, 0].astype(np.float32)).all()
    assert np.isfinite(found[:, :, 1].astype(np.float32)).all()


@pytest.mark.parametrize("page", [16, 64])
def test_pages_have_the_same_kernels_as_keys_that_follow(page: int) -> None:
    """With as many parts of the keys, so that what the two take can be compared."""
    case = Case(16, 4096, 4, 128, 1, page=page)
    assert case.name == f"16x4096 32/8 d128 m1 pages of {page}"
    names: list[str] = []
    sizes = {"B": 16, "N": 4096, "J": 4096 // page, "P": 16 * 4096 // page}
    for one in (case, replace(case, page=None)):
        plan = chosen(find(planned(one.text("bf16")), ScheduleOp), sizes)
        assert plan is not None and plan.of_few_queries
        names.append(plan.variant.data)
    assert names[0] == names[1]


def test_without_a_gpu_cases_are_modelled(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "--dry",
        "--sequences",
        "2",
        "--keys",
        "4096",
        "--groups",
        "8",
        "--features",
        "64",
        "--forms",
        "plain",
        "window",
    ]
    assert decode.main(argv) == 0
    plain, window = capsys.readouterr().out.splitlines()
    assert plain.startswith("2x4096 32/4 d64 m1: few_parts")
    assert window.startswith("2x4096 32/4 d64 m1 window: few_parts")
