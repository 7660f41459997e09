"""What models are made of reaches the tensor cores, and computes what it means (S11.1)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import Float32Type, ModuleOp, bf16, f16, f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from polyc.dialects.frontend import AttentionOp, GraphOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import BinaryOp, KernelOp, ReadOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.types import val_type
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.buildable import contracts
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.schedule import SCHEDULES
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_forms import FORMS, Heads
from polyc.test.support.gpu_text import only
from polyc.test.support.model_programs import FOLDER, MODELS, conv, text_of
from polyc.test.support.plans import leave_chosen
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

TO_PLAN = ("tiny", "index", "region", "plan")


def lowered(module: ModuleOp, arch: str, stages: Sequence[str]) -> ModuleOp:
    """A model after some stages, from its text."""
    ctx = make_context()
    found = parse_text(ctx, str(module), "model.mlir")
    for stage in stages:
        for name in STAGES[stage]:
            build(name, arch).apply(ctx, found)
    return found


@cache
def planned(name: str, arch: str) -> ModuleOp:
    return lowered(MODELS[name].module(large=True), arch, TO_PLAN)


def products(op: Operation) -> int:
    """The sums of products of two factors over unlike axes, inside of an op."""
    return sum(isinstance(reduce, ReduceOp) and _is_product(reduce) for reduce in op.walk())


def _is_product(reduce: ReduceOp) -> bool:
    product = reduce.operand.owner
    if reduce.fn.data != "sum" or not isinstance(product, BinaryOp) or product.fn.data != "mul":
        return False
    own = [_axes_behind(value) for value in product.operands]
    return own[0] != own[1]


def _axes_behind(value: SSAValue) -> set[str]:
    """The axes that a factor depends on, whatever it is broadcast to and wherever it is masked."""
    moves = ("region.broadcast_in_dim", "region.cast", "region.transpose", "region.select")
    while True:
        owner = value.owner
        if isinstance(owner, Block):
            together = owner.parent_op()
            assert isinstance(value, BlockArgument) and isinstance(together, ReduceTogetherOp)
            value = together.values[value.index]
        elif isinstance(owner, ReadOp):
            labels = val_type(value).labels
            return {labels[i] for e in owner.map.data.results for i in e.used_dims()}
        elif owner.name in moves:
            value = owner.operands[owner.name == "region.select"]
        else:
            return set(val_type(value).labels)


def on_tensor_cores(module: ModuleOp) -> int:
    """The products in regions of which every schedule names the tensor cores, but those of one
    row."""
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]
    plans = [plan for plan in plans if not plan.variant.data.startswith("one_")]
    slow = {plan.region.string_value() for plan in plans if plan.mma.data in ("none", "fma")}
    kernels = (op for op in module.ops if isinstance(op, KernelOp))
    return sum(products(k) for k in kernels if k.sym_name.data not in slow)


WRITE = "python -c 'from polyc.test.support.model_programs import write_examples as w; w()'"


def test_the_examples_are_the_models() -> None:
    """Each file says what its function says, and means what it makes."""
    assert {p.name for p in FOLDER.iterdir()} == {f"{name}.mlir" for name in MODELS}, WRITE
    for name, model in MODELS.items():
        text = (FOLDER / f"{name}.mlir").read_text(encoding="utf-8")
        assert text == text_of(name), f"{name}.mlir is of an earlier program; write all by: {WRITE}"
        assert re.match(r"// .+\.\n", text), name
        read = parse_text(make_context(), text, name)
        assert str(read) == str(model.module(large=True)), name


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", MODELS)
def test_every_product_of_a_model_is_on_tensor_cores(name: str, arch: str) -> None:
    assert on_tensor_cores(planned(name, arch)) == MODELS[name].contractions


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", MODELS)
def test_what_tensor_cores_read_lies_in_16_bits(name: str) -> None:
    """A factor that is computed is stored in its own type."""
    for kernel in planned(name, "sm_90a").ops:
        if isinstance(kernel, KernelOp) and products(kernel):
            reads = [op.result.type.element_type for op in kernel.walk() if isinstance(op, ReadOp)]
            assert sum(not isinstance(kind, Float32Type) for kind in reads) >= 2


def check_simulated(module: ModuleOp, sizes: dict[str, int], arch: str, seed: int) -> None:
    """The regions and the simulated kernels agree with the frontend's FP32 reference."""
    ctx = make_context()
    found = parse_text(ctx, str(module), "model.mlir")
    graph = only(found, GraphOp)
    inputs = make_inputs(graph, sizes, seed)
    wanted = meant(found, inputs, sizes)
    dice = random.Random(seed)
    with np.errstate(all="ignore"):
        for stage, names in STAGES.items():
            for name in names:
                build(name, arch).apply(ctx, found)
                if name == "plan-select":
                    leave_chosen(found, sizes)
            if stage == "region":
                played = play(found, graph.sym_name.data, inputs, sizes)
                assert played is not None
                assert_agree(played, wanted, "regions")
        order = dice.choice(tuple(SCHEDULES))
        result = simulate(gpu_module_of(found), inputs, sizes, None, order, seed)
    assert [str(f.error()) for f in result.findings] == []
    assert_agree(result.outputs, wanted, f"{arch}, {order}")


WAYS = (("sm_80", "f16"), ("sm_90a", "bf16"))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch", "element"), [(name, *WAYS[i % 2]) for i, name in enumerate(MODELS)]
)
def test_a_model_computes_what_it_means(name: str, arch: str, element: str) -> None:
    """Models share their parts: each architecture computes half of them, and every part."""
    model = MODELS[name]
    kind = {"f16": f16, "bf16": bf16}[element]
    check_simulated(model.module(kind), dict(model.sizes), arch, 5)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "arch"), [(n, WAYS[i % 2][0]) for i, n in enumerate(FORMS)])
def test_a_form_of_attention_computes_what_it_means(name: str, arch: str) -> None:
    form = FORMS[name]
    check_simulated(form.module(True, Heads(4, 2, 16)), form.symbols(37, 2), arch, 5)


PRODUCTS = {"layer": 6, "layer_packed": 4, "with_weights": 3}
"""Products of forms that have more than two; what weights are made of is computed again."""


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", FORMS)
def test_every_product_of_a_form_of_attention_is_on_tensor_cores(name: str, arch: str) -> None:
    module = lowered(FORMS[name].module(), arch, TO_PLAN)
    assert on_tensor_cores(module) == PRODUCTS.get(name, 2)


@pytest.mark.parametrize(
    ("name", "count"), [("merged_heads", 1), ("layer", 7), ("layer_packed", 5), ("plain", 1)]
)
def test_merged_heads_are_written_where_they_lie(name: str, count: int) -> None:
    """No kernel copies what attention makes, for an output or for a product that reads it."""
    module = lowered(FORMS[name].module(), "sm_90a", TO_PLAN[:-1])
    assert sum(isinstance(op, KernelOp) for op in module.ops) == count


def merged_beside(read: str) -> ModuleOp:
    """Heads merged in the rows of a token, and more that is read of them."""
    s, h = Sketch("beside"), Heads(4, 2, 16)
    q, k, v = (s.input(x, n, "T", h.width) for x, n in (("q", 4), ("k", 2), ("v", 2)))
    op = AttentionOp(q, k, v, causal=True, lse=read == "log-sum-exp")
    heads = s.add(op)
    y = s.reshape(s.permute(heads, 1, 0, 2), "T", h.hidden)
    match read:
        case "log-sum-exp":
            return s.done(y=y, lse=op.results[1])
        case "heads":
            return s.done(y=y, heads=heads)
        case "permuted":
            return s.done(y=s.permute(heads, 1, 0, 2))
        case "features outside":
            return s.done(y=s.reshape(s.permute(heads, 2, 1, 0), h.width, "T", h.queries))
        case "reshaped":
            return s.done(y=s.reshape(heads, 2, 2, "T", h.width))
        case _:
            return s.done(y=y, z=s.linear(y, "w", 40), x=s.fn("relu", y))


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "read",
    ["log-sum-exp", "heads", "permuted", "features outside", "reshaped", "rows, three times"],
)
def test_merged_heads_may_be_read_beside(read: str, arch: str) -> None:
    check_simulated(merged_beside(read), {"T": 37}, arch, 2)


# Programs that differ from those by an op ----------------------------------------------


def two_outputs() -> ModuleOp:
    """A product that is an output, and a sum of its rows."""
    s = Sketch("two_outputs")
    y = s.linear(s.input("x", "T", 64), "w", 88)
    return s.done(y=y, total=s.reduce("sum", y, 1))


def shared_product() -> ModuleOp:
    """A product that two others read."""
    s = Sketch("shared_product")
    h = s.fn("tanh", s.linear(s.input("x", "T", 64), "w", 64))
    return s.done(y=s.linear(h, "a", 72), z=s.linear(s.fn("relu", h), "b", 40))


def normed_both_ways() -> ModuleOp:
    """A norm of a product, which is a factor again."""
    s = Sketch("normed")
    x = s.input("x", "T", 64)
    h = s.layer_norm(s.linear(x, "w", 64, bias=True), "n")
    return s.done(y=s.fn("add", s.linear(h, "v", 64), x))


def product_of_products() -> ModuleOp:
    """Three products that meet in elementwise ops."""
    s = Sketch("three")
    x = s.input("x", "T", 64)
    a, b, c = (s.linear(x, name, 88) for name in "abc")
    return s.done(y=s.fn("add", s.fn("mul", s.fn("sigmoid", a), b), s.fn("gelu_tanh", c)))


def quadratic() -> ModuleOp:
    """X times a square of a product."""
    s = Sketch("quadratic")
    x = s.input("x", "T", 64)
    h = s.linear(x, "w", 64)
    return s.done(y=s.linear(s.fn("mul", h, h), "v", 64))


def turned_block() -> ModuleOp:
    """Two convolutions NCHW and the residual, whose image is an input."""
    s = Sketch("turned_block")
    x = s.input("x", "T", 16, 6, 7)
    y = s.fn("relu", conv(s, x, "w1", 16, 3, layout="nchw"))
    return s.done(y=s.fn("relu", s.fn("add", conv(s, y, "w2", 16, 3, layout="nchw"), x)))


def turned_twice() -> ModuleOp:
    """An image NCHW that is an output and goes on, by a window and pixel by pixel."""
    s = Sketch("turned_twice")
    y = s.fn("relu", conv(s, s.input("x", "T", 16, 6, 7), "w1", 16, 3, layout="nchw"))
    z = conv(s, y, "w2", 24, 3, 2, layout="nchw")
    return s.done(y=y, z=z, u=conv(s, y, "w3", 8, 1, layout="nchw"))


def two_attentions() -> ModuleOp:
    """Attentions side by side, and one of the other's result."""
    s = Sketch("two_attentions")
    q, k, v, u, w = (s.input(name, 2, "T", 64) for name in "qkvuw")
    first = s.add(AttentionOp(q, k, v))
    return s.done(y=s.add(AttentionOp(first, u, w)), z=s.add(AttentionOp(u, w, q)))


def own_scores() -> ModuleOp:
    """Attention of its own ops, a mask added, its softmax in f32, beside a product."""
    s = Sketch("own_scores")
    q, k, v = (s.input(name, 2, size, 64) for name, size in zip("qkv", "TUU", strict=True))
    scores = s.fn("mul", s.gemm(q, k, turned=True), s.number(0.125))
    scores = s.fn("add", scores, s.input("mask", "T", "U"))
    weights = s.cast(s.softmax(s.cast(scores, f32)), f16)
    return s.done(y=s.linear(s.fn("tanh", s.gemm(weights, v)), "w", 72))


def log_sum_exp() -> ModuleOp:
    """Attention's log-sum-exp, and its projection."""
    s = Sketch("log_sum_exp")
    q, k, v = (s.input(name, 2, "T", 64) for name in "qkv")
    op = AttentionOp(q, k, v, lse=True)
    made = s.reshape(s.permute(s.fn("tanh", s.add(op)), 1, 0, 2), "T", 128)
    return s.done(y=s.linear(made, "w", 72), z=op.results[1])


def after_attention() -> ModuleOp:
    """What follows an attention element by element and moved, which needs what it is."""
    s = Sketch("after_attention")
    q, k, v = (s.input(name, 2, "T", 64) for name in "qkv")
    made = s.add(AttentionOp(q, k, v, causal=True))
    turned = s.concat(2, s.fn("neg", s.cut(made, 2, 32, 64)), s.cut(made, 2, 0, 32))
    return s.done(y=s.fn("add", s.fn("mul", made, s.input("cos", "T", 64)), turned))


def softmax_before_attention() -> ModuleOp:
    """What an attention asks of is a softmax of features, of a product."""
    s = Sketch("softmax_before")
    q = s.softmax(s.linear(s.input("x", "T", 64), "w", 128))
    q = s.permute(s.reshape(q, "T", 2, 64), 1, 0, 2)
    k, v = (s.input(name, 2, "U", 64) for name in "kv")
    return s.done(y=s.add(AttentionOp(q, k, v)))


def gated_pixels() -> ModuleOp:
    """Two products that share pixels, which lie outside of their channels."""
    s = Sketch("gated_pixels")
    x = s.reshape(s.permute(s.input("x", 2, 64, 5, 7), 0, 2, 3, 1), 70, 64)
    return s.done(y=s.fn("mul", s.fn("silu", s.linear(x, "a", 264)), s.linear(x, "b", 264)))


OTHERS = (
    softmax_before_attention,
    gated_pixels,
    two_outputs,
    shared_product,
    normed_both_ways,
    product_of_products,
    quadratic,
    turned_block,
    turned_twice,
    two_attentions,
    own_scores,
    log_sum_exp,
    after_attention,
)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("make", "arch"),
    # In turn: where a graph is cut asks the families of both.
    [(make, ("sm_90a", "sm_80")[i % 2]) for i, make in enumerate(OTHERS)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_other_compositions_reach_the_tensor_cores(make: Callable[[], ModuleOp], arch: str) -> None:
    module = make()
    plans = lowered(module, arch, TO_PLAN)
    counts = {"gemm": 1, "conv2d": 1, "attention": 2}
    wanted = sum(str(module).count(f"frontend.{op} ") * count for op, count in counts.items())
    assert on_tensor_cores(plans) == wanted
    # The regions are those of both architectures, whose kernels of each kind half of them run.
    if OTHERS.index(make) % 2 == (arch == "sm_90a"):
        check_simulated(module, {"T": 3 if "conv2d" in str(module) else 37, "U": 50}, arch, 2)


@pytest.mark.parametrize(
    ("make", "count"),
    [(softmax_before_attention, 2), (gated_pixels, 2)],
    ids=lambda f: getattr(f, "__name__", None),
)
def test_products_that_belong_together_are_one_kernel(
    make: Callable[[], ModuleOp], count: int
) -> None:
    """An attention beside another softmax; a pair, with one copy of what both read."""
    plans = lowered(make(), "sm_90a", TO_PLAN)
    assert sum(isinstance(op, KernelOp) for op in plans.walk()) == count


def packed_heads(width: int, own: bool) -> ModuleOp:
    """Attention of 8 heads in the rows of one tensor, under a mask, as one op or as its own."""
    s = Sketch("packed_heads")
    x, mask = s.input("x", "T", 24 * width), s.input("mask", "T", "T")
    parts = (s.cut(x, 1, 8 * width * i, 8 * width * (i + 1)) for i in range(3))
    q, k, v = (s.permute(s.reshape(part, "T", 8, width), 1, 0, 2) for part in parts)
    if not own:
        return s.done(y=s.add(AttentionOp(q, k, v, [mask])))
    scores = s.fn("add", s.fn("mul", s.gemm(q, k, turned=True), s.number(0.125)), mask)
    return s.done(y=s.gemm(s.softmax(scores), v))


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("width", [8, 40, 72, 88, 120])
def test_heads_of_any_multiple_of_8_are_one_kernel(width: int, own: bool, arch: str) -> None:
    """Products, mask and softmax, from the rows where they lie."""
    plans = lowered(packed_heads(width, own), arch, TO_PLAN)
    (kernel,) = (op for op in plans.ops if isinstance(op, KernelOp))
    assert products(kernel) == on_tensor_cores(plans) == 2
    assert {op.pattern for op in plans.ops if isinstance(op, ScheduleOp)} == {"attention"}


def test_heads_of_another_size_are_left_to_several_kernels() -> None:
    plans = lowered(packed_heads(20, False), "sm_90a", TO_PLAN)
    patterns = {op.pattern for op in plans.ops if isinstance(op, ScheduleOp)}
    assert "attention" not in patterns


def test_the_families_are_asked_for_both_architectures() -> None:
    """A kernel contracts where a family of products schedules it, as plan-select will see it."""
    wanted = {"swiglu_two": True, "qkv_packed": True, "norm_gemm": False, "lora": False}
    for name, found in wanted.items():
        whole = parse_text(make_context(), str(MODELS[name].module()), "model.mlir")
        for step in ("frontend-to-tiny", "tiny-to-index"):
            build(step, "sm_80").apply(make_context(), whole)
        IndexToRegion(fuse="legal").apply(make_context(), whole)
        kernel = next(op for op in whole.ops if isinstance(op, KernelOp) and products(op))
        assert contracts(kernel.clone()) == found, name
    for kernel in planned("vit", "sm_90a").ops:
        if isinstance(kernel, KernelOp):
            assert contracts(kernel.clone()) == bool(products(kernel))


def test_small_products_are_not_worth_a_kernel() -> None:
    """Fewer than a million multiply-adds stay where they are used."""
    s = Sketch("small")
    x = s.input("x", 8, 16)
    module = s.done(y=s.linear(s.fn("gelu", s.linear(x, "a", 16)), "b", 16))
    assert sum(isinstance(op, KernelOp) for op in lowered(module, "sm_90a", TO_PLAN).ops) == 1


def test_products_in_f32_are_multiplied_by_threads() -> None:
    """No tensor core multiplies f32 exactly; stored is what each tile would compute again.

    The weight is read as it lies.
    """
    s = Sketch("wide", f32)
    module = s.done(y=s.linear(s.fn("silu", s.input("x", "T", 64)), "w", 88))
    plans = lowered(module, "sm_90a", TO_PLAN)
    function, product = sorted(
        (op for op in plans.ops if isinstance(op, KernelOp)), key=lambda op: len(op.arg_names)
    )
    assert any(op.name == "region.unary" for op in function.walk())
    made = function.res_names.data[0].data
    assert {name.data for name in product.arg_names} == {made, "w"}
    own = [op for op in plans.ops if isinstance(op, ScheduleOp) and op.mma.data == "fma"]
    assert {op.region.string_value() for op in own} == {product.sym_name.data}
