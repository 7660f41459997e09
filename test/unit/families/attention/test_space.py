"""Registers of wgmma's plans: ptxas holds what the space has, and the verifier refuses the rest.

The rule was found by compiling one wgmma under ever fewer registers; here it is written again, from
tiles and threads.
"""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention.recognise import find_attention
from polyc.families.attention.schedules import all_of_space, completed_fields, conditions
from polyc.families.attention.space import SHAPES, Tiling, paired, registers_of, space
from polyc.families.facts import left_open
from polyc.families.family import Fields, fitted
from polyc.families.space import space as products
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import Attention, passed
from polyc.test.support.gpu_text import find, only, parsed
from polyc.tools.play import play
from polyc.tuning.candidates import candidates

ARCH = "sm_90a"
REGISTERS = 65536
OWN, LEFT = 26, 4
FEATURES = range(16, 257, 16)


def begun(consumers: int, at_once: int) -> int:
    """Registers of a thread at launch."""
    return min(255, REGISTERS // (128 * (1 + consumers) * at_once) // 8 * 8)


def fits(keys: int, width: int, consumers: int, at_once: int, given: int) -> bool:
    """Whether each wgmma finds its operands at launch, and a consumer has room for all it holds."""
    one = max(keys // 2 + OWN, width // 2 + LEFT + OWN)
    return one <= begun(consumers, at_once) and keys * 3 // 4 + width // 2 + OWN <= given


def one_wgmma(columns: int, registers: int, left: bool) -> str:
    """A kernel of one wgmma, its left operand in registers or in shared memory."""
    sums = columns // 2
    parts = ", ".join(f"%{i}" for i in range(sums))
    operand = ", ".join(f"%{sums + i}" for i in range(4)) if left else f"%{sums}"
    first = f"{{{operand}}}, %{sums + 4}" if left else f"{operand}, %{sums + 1}"
    ins = [f'"r"(a[{i}])' for i in range(4)] if left else ['"l"(da)']
    return f"""
extern "C" __global__ void __maxnreg__({registers})
one(float *out, const unsigned *in, unsigned long long da, unsigned long long db) {{
  float d[{sums}];
  unsigned a[4];
  for (int i = 0; i < {sums}; i++) d[i] = 0.0f;
  for (int i = 0; i < 4; i++) a[i] = in[threadIdx.x + 128 * i];
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 "
    "{{{parts}}}, {first}, 1, 1, 1{"" if left else ", 0"}{", 0"};"
    : {", ".join(f'"+f"(d[{i}])' for i in range(sums))} : {", ".join(ins)}, "l"(db));
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < {sums}; i++) out[threadIdx.x * {sums} + i] = d[i];
}}"""


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("columns", [16, 128, 256])
def test_ptxas_asks_for_so_many_registers_of_one_wgmma(columns: int, left: bool) -> None:
    least = columns // 2 + OWN + (LEFT if left else 0)
    nvrtc.compile_cuda(one_wgmma(columns, least, left), ARCH)
    with pytest.raises(PolycError, match=f"target of {least} or higher"):
        nvrtc.compile_cuda(one_wgmma(columns, least - 1, left), ARCH)


def test_threads_have_registers_for_all_plans_of_the_space() -> None:
    found = 0
    for depth in FEATURES:
        for width in FEATURES:
            for persistent in (False, True):
                for plan in space(depth, width, ARCH, persistent):
                    for one in (plan, paired(plan, width, 4)):
                        if one is None:
                            continue
                        _, given = registers_of(one.consumers, one.at_once)
                        assert fits(one.keys, width, one.consumers, one.at_once, given), one
                        found += 1
    assert found > 1000


@pytest.mark.parametrize("loose", [False, True])
def test_threads_have_registers_for_all_plans_of_products(loose: bool) -> None:
    for several in (1, 2, 3):
        for plan in products(ARCH, several, loose=loose):
            groups = plan.rows // 64
            assert plan.columns // 2 + OWN <= begun(groups, 1), plan.name
            split = plan.fields()["registers"]
            given = split[1] if isinstance(split, list) and split else begun(groups, 1)
            assert isinstance(given, int)
            assert several * plan.columns // 2 + OWN <= given, plan.name


@pytest.mark.turns(1)
@pytest.mark.parametrize(("size", "options"), [(64, ""), (64, " causal"), (96, ""), (128, "")])
def test_what_is_measured_has_registers_too(size: int, options: str) -> None:
    """Neighbours of the space's plans have other keys a step: 128 of them beside 64 features, with
    three CTAs on a multiprocessor, no compiler holds."""
    shape = f"[H, M, {size}]"
    kernel = only(Attention(shape, shape, shape, [], options=options).region(), KernelOp)
    several = 0
    for one in candidates(kernel, ARCH, {"H": 24, "M": 191}, 60):
        plan = one.plan
        if plan.mma.data == "wgmma":
            _, given = plan.integers("registers")
            sizes = plan.tile_sizes[1], plan.warp_tile_sizes[1], plan.integer("consumers")
            assert fits(*sizes, plan.at_once, given), one.name
            several += 1
    assert several > 5


def scheduled(size: int, options: str, plan: Tiling) -> ModuleOp:
    """One attention under a plan that need not be of the space."""
    shape = f"[H, M, {size}]"
    module = passed(Attention(shape, shape, shape, [], options=options).region())
    kernel = only(module, KernelOp)
    found = find_attention(kernel)
    order: Fields = {"persistent": True} if plan.persistent else {"raster": "grouped", "group": 8}
    fields = completed_fields(found, ARCH, {**plan.fields(), **order})
    when = left_open(kernel, conditions(found, tma=True))
    assert when is not None
    block = kernel.parent_block()
    assert block is not None
    block.insert_op_after(fitted(kernel.sym_name.data, "near", fields, when), kernel)
    return module


NEAR = [
    (64, "", 1, 3, 96),
    (64, "", 1, 4, 48),
    (64, "", 1, 2, 208),
    (64, " causal", 1, 3, 96),
    (64, " causal", 2, 1, 224),
    (128, "", 2, 1, 176),
]
"""Features, mask, consumers, CTAs of a multiprocessor, and the most keys, in steps of 16."""


@pytest.mark.turns(1)
@pytest.mark.parametrize(("size", "options", "consumers", "at_once", "keys"), NEAR)
def test_the_rule_is_where_the_compiler_has_it(
    size: int, options: str, consumers: int, at_once: int, keys: int
) -> None:
    """Of the most keys that it allows no product is serialised and nothing spills; more keys are
    refused."""
    assert (consumers, at_once) in SHAPES or at_once == 1
    plan = Tiling(64 * consumers, keys, consumers, at_once, not options)
    lower = passed(scheduled(size, options, plan), "region-to-gpu", arch=ARCH)
    finish(lower)
    result = nvrtc.compile_cuda(cuda_source(only(lower, gpu.ModuleOp)), ARCH)
    assert not result.warnings()
    (info,) = result.kernels.values()
    assert info.spill_bytes == 0
    wider = Tiling(64 * consumers, keys + 16, consumers, at_once, not options)
    with pytest.raises(PolycError, match=re.escape(f"with {keys + 16} keys a step takes")):
        scheduled(size, options, wider)


@pytest.mark.turns(1)
@pytest.mark.parametrize(("keys", "size"), [(256, 128), (200, 128), (128, 128), (256, 64)])
def test_two_known_steps_spill_nothing(keys: int, size: int) -> None:
    """They stay a loop: without one the scores of both would be held at once."""
    shape = f"[1024, {keys}, {size}]"
    module = passed(
        Attention(f"[1024, 300, {size}]", shape, shape, []).region(),
        "plan-select",
        "region-to-gpu",
        arch=ARCH,
    )
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), ARCH)
    assert not result.warnings()
    assert {info.spill_bytes for info in result.kernels.values()} == {0}


def test_the_space_is_the_tests() -> None:
    """The plans that a causal attention gets are those that were asked above."""
    shape = "[H, M, 64]"
    kernel = only(Attention(shape, shape, shape, [], options=" causal").region(), KernelOp)
    for plan, (name, fields) in all_of_space(find_attention(kernel), ARCH).items():
        registers = fields["registers"]
        assert isinstance(registers, list) and isinstance(registers[1], int)
        assert fits(plan.keys, 64, plan.consumers, plan.at_once, registers[1]), name


def test_two_known_steps_are_counted_at_run_time() -> None:
    """What tiles and threads compute is what the graph says, and the high tile may be chosen."""
    program = Attention("[1, 256, 64]", "[1, 200, 64]", "[1, 200, 64]", [{}])
    module = passed(program.region(), "plan-select", "region-to-gpu", arch=ARCH)
    plans = all_of_space(find_attention(program.kernel()), ARCH)
    assert max(plan.keys for plan in plans) == 128
    inputs = program.inputs({})
    right = meant(parsed(program.text()), inputs, {})
    found = play(module, "attention", inputs, {})
    assert found is not None
    assert_agree(list(found), right)
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, {})
    assert not result.findings, "\n".join(map(str, result.findings))
    assert_agree(list(result.outputs), right)


@pytest.mark.parametrize(
    ("queries", "size", "variant"),
    [(49, 32, "tma_64x64_by2"), (64, 128, "tma_64x64_by2"), (65, 32, "tma_64x64_by2")],
)
def test_few_queries_with_a_mask_that_is_data_have_low_tiles(
    queries: int, size: int, variant: str
) -> None:
    """Most of a high tile would have no query; nothing spills."""
    shape, mask = f"[6, 4, {queries}, {size}]", f"[4, {queries}, {queries}], f16"
    program = Attention(shape, shape, shape, [{}], masks=[mask])
    module = passed(program.region(), "plan-select", arch=ARCH)
    plans = [plan for plan in find(module, ScheduleOp) if plan.mma.data == "wgmma"]
    assert [plan.variant.data for plan in plans] == [variant]
    lower = passed(module, "region-to-gpu", arch=ARCH)
    inputs = program.inputs({})
    found = play(lower, "attention", inputs, {})
    assert found is not None
    assert_agree(list(found), meant(parsed(program.text()), inputs, {}))
    finish(lower)
    result = nvrtc.compile_cuda(cuda_source(only(lower, gpu.ModuleOp)), ARCH)
    assert not result.warnings()
    assert {info.spill_bytes for info in result.kernels.values()} == {0}
