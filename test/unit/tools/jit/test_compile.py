"""``polyc.compile`` takes a text, a path, a module, a function or a tile program."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.root import ROOT

TEXT = """
frontend.graph @twice(%x: !frontend.tensor<[M, K], f32>) -> (y: !frontend.tensor<[M, K], f32>) {
  %0 = frontend.elementwise add %x, %x : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32>
  frontend.output %0 : !frontend.tensor<[M, K], f32>
}
"""  # noqa: E501

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def twice(x: Tensor["M", "K", "f32"], *, by: float = 2.0):
    return x * by


def test_every_source_gives_the_same_object(tmp_path: Path):
    path = tmp_path / "twice.mlir"
    path.write_text(TEXT)
    module = polyc.compile(TEXT, device="cpu").module
    assert isinstance(module, ModuleOp)
    for source in (TEXT, path, str(path), module, twice):
        found = polyc.compile(source, "sm_80", device="cpu")
        assert isinstance(found, polyc.Compiled)
        np.testing.assert_array_equal(found(X), 2 * X)
    found = polyc.compile(twice, constants={"by": 3.0}, device="cpu")
    np.testing.assert_array_equal(found(X), 3 * X)
    again = polyc.compile(polyc.jit(twice, device="cpu"), constants={"by": 4.0}, arch="sm_80")
    np.testing.assert_array_equal(again(X), 4 * X)


def test_a_tile_program_and_its_file():
    path = ROOT / "examples" / "tile" / "column_sum.py"
    found = polyc.compile(path, device="cpu")
    x = np.ones((5, 7), np.float32)
    shapes = [len(d) for d in found.signature.shapes]
    assert shapes == [2, 1] and found.arch is not None
    np.testing.assert_allclose(found(x.astype(_kind(found, 0))), x.sum(0))
    assert "gpu.module" in found.ir("tiles") and found.plan == []


def _kind(found: polyc.Compiled, i: int) -> Any:
    return {"f16": np.float16, "f32": np.float32}[found.signature.elements[i]]


def test_par_compile_makes_all_kernels():
    first, second = polyc.par_compile([TEXT, twice], "sm_80")
    assert first.resources and second.resources


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (3, {}, "takes a text, a path, a module or a function, not a int"),
        (TEXT, {"constants": {"a": 1}}, "constants are of a Python function"),
        (TEXT, {"arch": "sm_1"}, "no architecture"),
        (TEXT, {"name": "other"}, "expected one program other, found none"),
        (TEXT, {"options": {"speed": 1}}, "options has speed; there are records"),
        (TEXT, {"options": {"debug": True}, "plan": "p.json"}, "debug is about a frontend.graph"),
        (TEXT, {"execution_backend": "tpu"}, "UnknownBackend.*there are auto, cuda, compiled, cpu"),
        (TEXT, {"out_idx": 0}, "out_idx names tensor 0 of twice; its outputs are 1 \\(y\\)"),
        (twice, {"constants": {"to": 1}}, "has no constant to"),
        ("frontend.graph @f {", {}, "text:1:"),
    ],
)
def test_what_is_refused(source: Any, options: dict[str, Any], message: str):
    with pytest.raises(PolycError, match=message):
        polyc.compile(source, **options)


def test_machine_code_needs_the_toolkit(monkeypatch: pytest.MonkeyPatch):
    for name in ("PATH", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(PolycError, match="NoDisassembler"):
        _ = polyc.compile(TEXT, "sm_80").sass


def taken(x: Tensor["V", "f32"], i: Tensor["N", "i32"]):
    return polyc.take(x, i, trap=True)


def test_a_debug_build_reads_its_reports_after_every_call(monkeypatch: pytest.MonkeyPatch):
    found = polyc.compile(taken, "sm_90a", options={"debug": True})
    program = found.program()
    assert program.names[-1] == "trap0" and list(found.signature.names) == ["x", "i", "out"]
    x, i, y = np.zeros(3, np.float32), np.zeros(2, np.int32), np.zeros(2, np.float32)
    given: list[Any] = []

    def ran(inputs: Any, symbols: Any, out: Any, *_: Any) -> list[Any]:
        given.append(out)
        return [y, np.asarray([1, 3, 3])]

    monkeypatch.setattr(program, "_run", ran)
    for _ in range(2):
        with pytest.raises(PolycError, match=r"index 3 at place 1 of \[N\] is outside of axis 0"):
            found(x, i)
    # What is written is followed by room for the reports.
    with pytest.raises(PolycError, match="index 3 at place 1"):
        found(x, i, out=y)
    assert given[:2] == [None, None] and given[2][0] is y and given[2][1].shape == (3,)
