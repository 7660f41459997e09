"""Differential checks: which layer, pass, value and element is wrong (S6.9, S13.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass

from polyc.dialects import index, region, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.check import EachPass, Expected, small_sizes
from polyc.tools.pipeline import Compilation
from polyc.tools.play import play, programs
from polyc.tools.polyc import main as polyc
from polyc.tools.polyc_opt import main as polyc_opt

EXAMPLE = "examples/gemm_bias_relu.mlir"

SQUARE = """
tiny.graph @f(%x: !tiny.tensor<[N, N], f32>) -> (y: !tiny.tensor<[N, N], f32>) {
  %t = tiny.permute %x perm [1, 0] : !tiny.tensor<[N, N], f32> -> !tiny.tensor<[N, N], f32>
  %y = tiny.unary exp %t : !tiny.tensor<[N, N], f32>
  tiny.output %y : !tiny.tensor<[N, N], f32>
}
"""


@dataclass(frozen=True)
class ForgetPermutes(ModulePass):
    """Replaces every permute by its operand: wrong where the axes have equal sizes."""

    name = "forget-permutes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for found in list(op.walk()):
            if isinstance(found, tiny.PermuteOp):
                found.result.replace_all_uses_with(found.operand)


@dataclass(frozen=True)
class ShiftMaps(ModulePass):
    """Lets the entries of permutes read the operand as it lies."""

    name = "shift-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for found in op.walk():
            if isinstance(found, index.ValueOp) and isinstance(found.value.owner, tiny.PermuteOp):
                as_it_lies = AffineMap(2, 1, (AffineDimExpr(0), AffineDimExpr(1)))
                found.pieces = ArrayAttr([index.PieceAttr.of([as_it_lies])])


def opt(capsys: pytest.CaptureFixture[str], path: Path, *args: str) -> tuple[int, str]:
    code = polyc_opt([str(path), "--load-pass", f"{__name__}:ForgetPermutes", *args])
    return code, capsys.readouterr().err


# polyc-opt --check-each -----------------------------------------------------------------


def test_the_pass_that_changes_a_result_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(SQUARE)
    passes = ("-p", "tiny-canonicalize-movements,forget-permutes,cse", "--check-each")
    code, err = opt(capsys, path, *passes)
    assert code == 1
    assert "error[Disagreement]: forget-permutes changes what @f computes at N=3: " in err
    assert "output y, element [0, 1] is " in err and " before it" in err
    assert "6 of 9 elements differ" in err
    assert opt(capsys, path, *passes[:2])[0] == 0


def test_sizes_and_seed_are_the_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(SQUARE)
    found = [
        opt(capsys, path, "-p", "forget-permutes", "--check-each", *more)[1]
        for more in ((), ("--seed", "7"), ("--set", "N=6"))
    ]
    assert "at N=3" in found[0] and "at N=3" in found[1] and "at N=6" in found[2]
    assert found[0] != found[1]
    assert opt(capsys, path, "-p", "forget-permutes", "--check-each", "--set", "N=1")[0] == 0


@pytest.mark.parametrize(
    ("setting", "says"),
    [("N", "error[BadSize]"), ("N=-1", "error[BadSize]"), ("Q=3", "error[UnknownSymbol]")],
)
def test_settings_are_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, setting: str, says: str
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(SQUARE)
    code, err = opt(capsys, path, "-p", "cse", "--check-each", "--set", setting)
    assert code == 1 and says in err


def test_the_wrong_entry_of_a_book_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(SQUARE)
    more = ("--load-pass", f"{__name__}:ShiftMaps")
    code, err = opt(capsys, path, *more, "-p", "tiny-to-index,shift-maps", "--check-each")
    assert code == 1
    assert "shift-maps changes what @f computes" in err
    assert "note: the first wrong entry is that of %t, a tiny.permute: element [0, 1] is" in err


def test_a_kernel_of_the_region_layer_is_checked() -> None:
    """A text may start at any layer that is played back; it is then its own reference."""
    job = Compilation.of_file(EXAMPLE, "sm_80").run("region")
    (kernel,) = (op for op in job.module.ops if isinstance(op, region.KernelOp))
    check = EachPass.of_module(job.module, given={"K": 6})
    assert check.expected[0].symbols == {"M": 3, "K": 6, "N": 5}
    for found in list(kernel.walk()):
        if isinstance(found, region.BinaryOp) and found.fn.data == "add":
            found.result.replace_all_uses_with(found.lhs)
    with pytest.raises(PolycError, match="lost-bias changes what @gemm_bias_relu computes"):
        check.after(job.module, "lost-bias")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_gpu_layer_is_played_from_tiles_to_threads(arch: str) -> None:
    """By the tiles until a pass leaves their level, by the simulator once all have."""
    job = Compilation.of_file(EXAMPLE, arch)
    (program,) = programs(job.module)
    expected = Expected.of(program, {"M": 9, "K": 16, "N": 24})
    played: list[str] = []

    def after(module: ModuleOp, name: str) -> None:
        if expected.check(module, name) is not None:
            played.append(name)

    job.after = after
    job.run()
    assert {"region-to-gpu", "gpu-layout-inference"} <= {*played}
    last = list(job.module.ops)[-1]
    assert last.name == "gpu.module"
    assert play(job.module, "gemm_bias_relu", expected.inputs, expected.symbols) is not None


# Sizes ----------------------------------------------------------------------------------


def test_small_sizes_keep_what_is_given() -> None:
    job = Compilation.of_file("examples/gemm_bias_relu_aligned.mlir", "sm_80")
    (program,) = programs(job.module)
    assert small_sizes(program, {"M": 11})["M"] == 11
    with pytest.raises(PolycError, match=r"no small sizes satisfy .* with N=3; give them by --set"):
        small_sizes(program, {"N": 3})


# polyc run ------------------------------------------------------------------------------


def test_a_program_without_a_kernel_is_played_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = [f"--set={s}={n}" for s, n in {"B": 1, "H": 2, "M": 3, "N": 5}.items()]
    args = ["run", "examples/causal_attention.mlir", *sizes, "--device", "cpu", "--check"]
    assert polyc([*args, "--arch", "sm_80"]) == 0
    out = capsys.readouterr().out
    assert "play back index" in out
    assert "frontend, tiny, index and region agree with the FP32 reference" in out


def test_conditions_are_compared(tmp_path: Path) -> None:
    """Outputs of type i1 agree where they are equal."""
    path = tmp_path / "f.mlir"
    path.write_text("""
frontend.graph @f(%x: !frontend.tensor<[N], f32>, %w: !frontend.tensor<[N], f32>)
    -> (y: !frontend.tensor<[N], i1>) {
  %y = frontend.compare lt %x, %w : (!frontend.tensor<[N], f32>, !frontend.tensor<[N], f32>)
      -> !frontend.tensor<[N], i1>
  frontend.output %y : !frontend.tensor<[N], i1>
}
""")
    job = Compilation.of_file(path, "sm_80")
    (program,) = programs(job.module)
    expected = Expected.of(program, {"N": 5})
    outputs = expected.play(job.module)
    assert outputs is not None and expected.compare("the frontend", outputs) == 0
    wrong = [np.logical_not(outputs[0])]
    with pytest.raises(PolycError, match="5 of 5 elements differ"):
        expected.compare("the frontend", wrong)
