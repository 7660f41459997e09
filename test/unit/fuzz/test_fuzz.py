"""A short run of what ``make fuzz`` runs for long."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.mutation import mutants, mutated
from polyc.test.fuzz import kernels, search, text


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", range(8))
def test_kernels(number: int) -> None:
    run = kernels.drawn(random.Random(f"ci {number}"))
    assert kernels.failure(run) is None, run


def test_texts() -> None:
    for number in range(2):
        dice = random.Random(f"ci {number}")
        found = text.failure(text.mutated(dice), dice.choice(("sm_80", "sm_90a")))
        assert found is None, number


def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks can fail: on a kernel that is wrong, and on an error that is not ours."""
    run = kernels.Run("sm_80", "f16", "nn", "bias", (8, 8, 8), "random", "late", 0, 1)
    assert kernels.failure(run) is None
    right = kernels.compiled(run.arch, run.element, run.order, run.epilogue)
    kernel = "gemm_cp_async16"
    loads = [m for m in mutants(right) if m.kernel == kernel and m.op == "gpu.ldmatrix"]
    missing = next(m for m in loads if m.change == "remove it")

    def wrong(*_: str) -> ModuleOp:
        return mutated(right, missing)

    monkeypatch.setattr(kernels, "compiled", wrong)
    assert kernels.failure(run) is not None

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(text, "parse_text", broken)
    assert "ZeroDivisionError" in (text.failure("", "sm_80") or "")


def odd(number: int, seed: int) -> tuple[str | None, Counter[str]]:
    return "it is odd" if (number + seed) % 2 else None, Counter({"to the end": 1})


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_search_says_each_fault_and_how_far_it_is(
    jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = search.parser("Numbers.", 4)
    args = options.parse_args(["--first", "7", "--jobs", jobs])
    assert search.search("number", odd, args, every=3) == 1
    lines = [line.partition(" faults")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "number 7 of seed 0: it is odd",
        "number 9 of seed 0: it is odd",
        "3 numbers, 3 to the end, 2",
        "4 numbers, 4 to the end, 2",
    ]
    args = options.parse_args(["--first", "8", "--runs", "1", "--jobs", jobs])
    assert search.search("number", odd, args, every=3) == 0
