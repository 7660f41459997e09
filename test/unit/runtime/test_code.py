"""The code of a program: compiled at once, or each kernel when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc
from polyc.runtime.code import Code
from polyc.tools.load import load

NAMES = ("first", "second", "third")

TEXT = """frontend.graph @g(%A: !frontend.tensor<[M, N], f32>)
    -> (B: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.elementwise neg %A : !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}"""


def source(name: str) -> str:
    return f'extern "C" __global__ void {name}() {{}}'


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that the compiler gets, in their order."""
    seen: list[str] = []
    own = nvrtc.compile_cuda

    def counted(text: str, *args: Any) -> nvrtc.CompileResult:
        seen.append(text)
        return own(text, *args)

    monkeypatch.setattr(nvrtc, "compile_cuda", counted)
    return seen


def test_all_are_compiled_at_once(compiled: list[str]) -> None:
    code = Code("sm_90a", "g", NAMES, map(source, NAMES))
    assert sorted(compiled) == sorted(code.sources) == sorted(map(source, NAMES))
    assert [list(result.kernels) for result in code.results] == [[name] for name in NAMES]
    assert len(compiled) == len(NAMES)


def test_each_is_compiled_when_it_is_asked_for_and_once(compiled: list[str]) -> None:
    code = Code("sm_90a", "g", NAMES, source)
    assert not compiled
    for _ in range(2):
        assert list(code.result(code.unit("second")).kernels) == ["second"]
        assert compiled == [source("second")]
    assert [list(result.kernels) for result in code.results] == [[name] for name in NAMES]
    assert sorted(compiled) == sorted(map(source, NAMES))
    assert len(code.results) == len(compiled)


OTHER = {"first": source("first"), "second": source("other")}


@pytest.mark.parametrize("sources", [OTHER.values(), OTHER.__getitem__])
def test_a_kernel_that_the_compiler_does_not_speak_of_is_refused(
    sources: Iterable[str] | Callable[[str], str],
) -> None:
    with pytest.raises(PolycError, match="ptxas says nothing of second"):
        _ = Code("sm_90a", "g", NAMES[:2], sources).results


def test_what_is_loaded_compiles_nothing_before_it_runs(compiled: list[str]) -> None:
    program = load(TEXT, "sm_90a")
    assert program.sources and not compiled
    assert set(program.kernels) == {kernel.sym_name.data for kernel in program.module.kernels()}
    assert len(compiled) == len(program.sources)
