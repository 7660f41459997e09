"""A program's description: the same from its module and from JSON, and nothing else is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xdsl.context import Context

from polyc.dialects.common.size_expr import Dim
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import described
from polyc.runtime.lowered import Lowered
from polyc.tools.parsing import parse_text

TEXT = """
gpu.module @job arch "sm_90a" symbols [H, M, N] assuming (M >= 2) {
  gpu.kernel @copy(%x: !gpu.global<[M, N], f16> = tensor 0,
                   %w: !gpu.global<[M, N], f16> = workspace "W") threads 64 {
    gpu.return
  }
  gpu.kernel @most(%a: !gpu.tensor_map<[128, 64], f16, swizzle 128>
                       = tensor_map "W" view [M * N, 64],
                   %b: !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -1], upper [-1, -1],
                       strides [1, 2]> = tensor_map 1,
                   %c: !gpu.global<[M, N], f32> = tensor 2, %n: index = symbol N)
                   threads 384 blocks_per_sm 2 shared_bytes 100000 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, N], f16> {align = 16 : i64},
                X: !gpu.global<[N, H, H, 64], f16>) -> (C: !gpu.global<[M, N], f32>) {
    gpu.sequence @both when (N mod 8 == 0, (H - 1) floordiv 2 - M >= 1) align [16, 16, 4] {
      gpu.workspace "W" : !gpu.global<[M, (N + 7) floordiv 8 * 8], f16> copies tensor 0
      gpu.launch @copy grid [M] fills "W"
      gpu.launch @most grid [(M + 127) floordiv 128, 3] persistent overlapped
    }
    gpu.launch @most when (M * N >= 1) align [16, 16, 4] grid [N] persistent cooperative [2]
  }
}
"""


def of(text: str, sources: list[str] | None) -> described.Described:
    from polyc.tools.registry import make_context

    # Nothing is verified: a kernel binds a workspace that its second launch has not.
    module = gpu_module_of(parse_text(make_context(), text, "m.mlir"))
    return Lowered(module, sources).described


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> described.Described:
    from polyc.runtime import lowered

    def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(lowered, "Code", nothing)
    return of(TEXT, [])


def written(data: Any) -> Any:
    return json.loads(json.dumps(data))


def test_json_brings_it_back(found: described.Described, ctx: Context) -> None:
    data = written(described.described_json(found))
    assert described.read_described(data) == found
    launches = found.choices[0].launches
    assert launches is not None and not launches[1].alone
    assert launches[0].fills == "W" and launches[1].grid.room == 2
    first, second, *_ = launches[1].arguments
    assert first.source == "W" and first.map is not None and first.map.swizzle == 128
    assert second.map is not None and second.map.window == ((-1, -1), (-1, -1), (1, 2))
    other = found.choices[1].launches
    assert other is not None and other[0].alone and other[0].grid.group({"M": 1, "N": 1}) == 2


def test_what_is_not_lowered_has_no_launches_yet(found: described.Described) -> None:
    above = of(TEXT, None)
    assert [choice.launches for choice in above.choices] == [None, None]
    data = written(described.described_json(above))
    assert described.read_described(data) == above
    whole = written(described.described_json(found))
    assert described.merged(data, whole) == whole["launches"] == described.merged(whole, data)


M, N = Dim.sym("M"), Dim.sym("N")


@pytest.mark.parametrize(
    "dim",
    [
        *(Dim.const(0), Dim.const(-7), M, -M, M * 2, M * N - 3, M.mod(8)),
        *((M - 1).floordiv(2) * N + 1, ((M + N).floordiv(3) + 5).mod(7) * -2),
    ],
    ids=str,
)
def test_a_size_is_its_terms(dim: Dim) -> None:
    data = written(described.dim_json(dim))
    assert described.read_dim(data) == dim


@pytest.mark.parametrize(
    "change",
    [
        {"arch": 90},
        {"names": ["A"]},
        {"num_inputs": True},
        {"choices": []},
        {"launches": [None]},
        {"facts": [["<", "M"]]},
        {"shapes": [[[[1, ["div", "M", 2]]]], [], []]},
        {"symbols": "MN"},
    ],
    ids=str,
)
def test_other_json_is_refused(found: described.Described, change: dict[str, Any]) -> None:
    data = written(described.described_json(found)) | change
    with pytest.raises((ValueError, TypeError, LookupError)):
        described.read_described(data)
