"""tiny-keep-groups: it fires, it refuses, changes no value, and a norm of groups is one kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.passes.tiny.keep_groups import KeepGroups
from polyc.playback.agreement import tolerance_check
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs, reference
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context


def norm(
    n: int = 8,
    groups: int = 4,
    width: int = 16,
    *,
    kind: Attribute = f32,
    pixels: tuple[int, ...] = (),
    normed: bool = True,
    gate: bool = True,
) -> ModuleOp:
    """A norm of groups of [N, C, ...], scaled and shifted by channels, and gated."""
    s = Sketch("norm", kind)
    channels = groups * width
    x = s.input("x", n, channels, *pixels)
    apart = s.reshape(x, n, groups, width, *pixels)
    axes = tuple(range(2, 3 + len(pixels)))
    apart = s.add(frontend.LayerNormOp(apart, axes, 1e-5)) if normed else s.fn("tanh", apart)
    y = s.reshape(apart, n, channels, *pixels)
    ones = [1] * len(pixels)
    y = s.fn("mul", y, s.input("weight", channels, *ones))
    y = s.fn("add", y, s.input("bias", channels, *ones))
    return s.done(y=s.fn("mul", y, s.fn("sigmoid", y)) if gate else y)


def lowered(module: ModuleOp) -> ModuleOp:
    FrontendToTiny().apply(make_context(), module)
    return module


def fired(module: ModuleOp) -> bool:
    """Whether the output is what merges the groups, after the pattern."""
    rewrite(module, [KeepGroups()], recursive=True)
    verify(module)
    return isinstance(only(module, tiny.OutputOp).args[0].owner, tiny.ReshapeOp)


@settings(max_examples=examples(30))
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(2, 5)),
    kind=st.sampled_from((f32, f16)),
    gate=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_values_stay(sizes: tuple[int, int, int], kind: Attribute, gate: bool, seed: int) -> None:
    plain, made = (lowered(norm(*sizes, kind=kind, gate=gate)) for _ in range(2))
    assert fired(made) == (sizes[1] > 1)
    dice = np.random.default_rng(seed)
    leaves = only(plain, tiny.GraphOp).body.block.args
    shapes = [[d.constant() or 0 for d in tiny.tensor_of(leaf).dims] for leaf in leaves]
    args = [dice.standard_normal(s).astype("f4" if kind == f32 else "f2") for s in shapes]
    (right,), (found,) = (run(only(one, tiny.GraphOp), args, {}) for one in (plain, made))
    assert found.tobytes() == right.tobytes()


@pytest.mark.parametrize(
    "module", [norm(normed=False), norm(pixels=(4, 4))], ids=["no norm", "pixels are inside"]
)
def test_others_stay(module: ModuleOp) -> None:
    assert not fired(lowered(module))


@pytest.mark.parametrize("kind", [f32, f16], ids=str)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_norm_of_groups_and_what_follows_are_one_kernel_of_rows(
    kind: Attribute, arch: str
) -> None:
    module = norm(6, 4, 32, kind=kind)
    source = only(module.clone(), frontend.GraphOp)
    for name in ABOVE_GPU:
        build(name, arch).apply(make_context(), module)
        if name == "plan-select":
            assert len(find(module, KernelOp)) == 1
            assert {plan.pattern for plan in find(module, ScheduleOp)} == {"rows"}
    kernels = finished(only(module, gpu.ModuleOp))
    done = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert not done.warnings()
    assert all((one.spill_bytes, one.stack) == (0, 0) for one in done.kernels.values())
    inputs = make_inputs(source, {})
    (wanted,) = reference(source, inputs, {})
    result = simulate(kernels, inputs, {}, schedule="random", seed=1)
    result.check()
    found = np.asarray(result.outputs[0])
    assert tolerance_check(found, wanted, source.outputs[0].type.element_type) is None
