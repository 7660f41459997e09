"""Patterns in regions: what matches, how its sizes are bound, and that nothing else does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, StringAttr
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstraintExpr, AffineMap, AffineSet
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import holds, is_integer, neutral, number_attr
from polyc.dialects.region import (
    BinaryOp,
    ConstantOp,
    GatherOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ScanOp,
    ScatterOp,
    SelectOp,
    UnaryOp,
)
from polyc.dialects.region.scope import NEUTRAL
from polyc.passes.pipeline import build
from polyc.playback import region as playback
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import copied
from polyc.rewriting.region.matching import Difference, Match, match
from polyc.test.fuzz.random_programs import drawn
from polyc.test.support.by_hand import add_relu, product, region, regions
from polyc.test.support.root import ROOT
from polyc.tools.kernels.regions import PASSES, forms
from polyc.tools.pipeline import run_pass
from polyc.tools.play import Signature, estimated
from polyc.tools.registry import make_context

EXAMPLES = ROOT / "examples"


def matched(pattern: KernelOp, target: KernelOp) -> Match:
    found = match(pattern, target)
    assert isinstance(found, Match), found
    return found


def sizes(found: Match) -> dict[str, str]:
    return {name: str(size) for name, size in found.symbols.items()}


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.mlir").read_text("utf-8")


# What matches --------------------------------------------------------------------------

SAME = {
    "itself": (add_relu(), add_relu(), {"M": "M", "N": "N"}),
    "other names": (add_relu(), add_relu("[P, Q]", "[Q]"), {"M": "P", "N": "Q"}),
    "names that change places": (add_relu(), add_relu("[N, M]", "[M]"), {"M": "N", "N": "M"}),
    "constants": (add_relu(), add_relu("[6, 40]", "[40]"), {"M": "6", "N": "40"}),
    "one size for two": (add_relu(), add_relu("[N, N]", "[N]"), {"M": "N", "N": "N"}),
    "an expression": (
        add_relu(),
        add_relu("[M, 2 * N + 1]", "[2 * N + 1]"),
        {"M": "M", "N": "2 * N + 1"},
    ),
    "several axes as one": (add_relu(), add_relu("[B, S, D]", "[D]"), {"M": "B * S", "N": "D"}),
    "constants as one": (add_relu(), add_relu("[4, 3, D]", "[D]"), {"M": "12", "N": "D"}),
    "an expression of the pattern's": (
        add_relu("[2 * M, N + 1]", "[N + 1]"),
        add_relu("[4 * P, Q]", "[Q]"),
        {"M": "2 * P", "N": "Q - 1"},
    ),
    "all axes as one": (
        add_relu("[M]", "[M]"),
        add_relu("[B, S, D]", "[B, S, D]"),
        {"M": "B * D * S"},
    ),
    "a product": (
        product(),
        product("[B, S, D]", "[D, F]", "[B, S, F]"),
        {"M": "B * S", "K": "D", "N": "F"},
    ),
    "a softmax of rows": (
        example("softmax"),
        example("softmax").replace("[M, N]", "[B, H, M, N]").replace("axes [1]", "axes [3]"),
        {"M": "B * H * M", "N": "N"},
    ),
    "a norm": (example("layer_norm"), example("layer_norm"), {"M": "M", "N": "N"}),
    "a convolution": (
        example("conv_silu"),
        example("conv_silu"),
        {s: s for s in ("N", "H", "W", "C", "F")},
    ),
}


@pytest.mark.parametrize(("pattern", "target", "wanted"), SAME.values(), ids=SAME)
def test_a_region_is_found(pattern: str, target: str, wanted: Mapping[str, str]) -> None:
    found = matched(region(pattern), region(target))
    assert sizes(found) == wanted


def test_operands_of_a_sum_change_places() -> None:
    turned = add_relu().replace(
        "add %X, %b : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[N], f32>)",
        "add %b, %X : (!frontend.tensor<[N], f32>, !frontend.tensor<[M, N], f32>)",
    )
    assert turned != add_relu()
    assert matched(region(add_relu()), region(turned)).tensors == (0, 1, 2)


def test_inputs_in_another_order() -> None:
    kind, row = "!frontend.tensor<[M, N], f32>", "!frontend.tensor<[N], f32>"
    other = add_relu().replace(f"%X: {kind}, %b: {row}", f"%b: {row}, %X: {kind}")
    assert matched(region(add_relu()), region(other)).tensors == (1, 0, 2)


def test_what_the_pattern_assumes_is_a_condition() -> None:
    pattern = product(more="assuming (K mod 8 == 0)")
    found = matched(region(pattern), region(product("[P, Q]", "[Q, R]", "[P, R]")))
    assert [str(fact) for fact in found.facts] == ["Q mod 8 == 0"]


def test_regions_of_a_graph() -> None:
    """A part of a larger program, whose symbols are those of all of it."""
    first, second = regions(example("mlp"))
    pattern = region(product())
    assert sizes(matched(pattern, first)) == {"M": "M", "K": "K", "N": "L"}
    assert isinstance(match(pattern, second), Difference)


# What does not -------------------------------------------------------------------------

CONV = example("conv_silu")
PAD = """frontend.graph @f(%X: !frontend.tensor<[N], f32>) -> (Y: !frontend.tensor<[N + 2], f32>) {
  %0 = frontend.pad %X {low = [LOW], high = [HIGH], value = FILL}
      : !frontend.tensor<[N], f32> -> !frontend.tensor<[N + 2], f32>
  frontend.output %0 : !frontend.tensor<[N + 2], f32>
}
"""


def turned_product() -> str:
    """A · Bᵀ."""
    t, u, v = (f"!frontend.tensor<{s}, f16>" for s in ("[M, K]", "[N, K]", "[M, N]"))
    return (
        f"frontend.graph @f(%A: {t}, %B: {u}) -> (C: {v}) {{\n"
        f"  %0 = frontend.gemm %A, %B {{acc = f32, transpose_b}} : ({t}, {u}) -> {v}\n"
        f"  %1 = frontend.elementwise relu %0 : {v}\n  frontend.output %1 : {v}\n}}\n"
    )


OTHER = {
    "another function": (
        add_relu(),
        add_relu(last="exp"),
        "it has region.unary exp where the pattern has region.binary max",
    ),
    "another element type": (
        add_relu(),
        add_relu(kind="f16"),
        "it has region.cast to f16 where the pattern has region.binary max",
    ),
    "another type of the product": (
        product(),
        product(kind="bf16"),
        "region.cast to bf16",
    ),
    "a vector along the other axis": (
        add_relu("[M, N]", "[N]"),
        add_relu("[M, N]", "[M, 1]"),
        "goes along",
    ),
    "a factor that is stored turned": (
        product(),
        turned_product(),
        "B of the pattern is [K, N], which [N, K] here is not",
    ),
    "one axis less": (
        product("[B, M, K]", "[B, K, N]", "[B, M, N]"),
        product(),
        "its output C goes along 2 axes, and the pattern's along 3",
    ),
    "an axis of another size": (
        add_relu("[M, 64]", "[64]"),
        add_relu("[M, 65]", "[65]"),
        "X of the pattern is [M, 64], which [M, 65] here is not",
    ),
    "two sizes for one": (
        add_relu("[N, N]", "[N]"),
        add_relu(),
        "X of the pattern is [N, N], which [M, N] here is not",
    ),
    "a size that is no whole number of the pattern's": (
        add_relu("[2 * M, N]", "[N]"),
        add_relu("[3 * M, N]", "[N]"),
        "X of the pattern is [2 * M, N]",
    ),
    "a size that is only there rounded": (
        add_relu("[M floordiv 2, N]", "[N]"),
        add_relu("[P, N]", "[N]"),
        "no tensor tells how large M of the pattern is",
    ),
    "another constant": (
        example("layer_norm"),
        example("layer_norm").replace("1.0e-05", "1.0e-06"),
        "it has region.constant 1.0e-06 where the pattern has region.constant 1.0e-05",
    ),
}


@pytest.mark.parametrize(("pattern", "target", "text"), OTHER.values(), ids=OTHER)
def test_something_else_is_not_found(pattern: str, target: str, text: str) -> None:
    assert pattern != target
    found = match(region(pattern), region(target))
    assert isinstance(found, Difference)
    assert text in found.text


def changed(kernel: KernelOp, kind: type[Operation], change: Callable[[Any], None]) -> KernelOp:
    """A copy of a region of which the first op of a kind is changed."""
    copy = copied(kernel)
    change(next(op for op in copy.walk() if isinstance(op, kind)))
    return copy


def test_another_reduction_is_not_found() -> None:
    def least(op: ReduceOp) -> None:
        op.fn, op.init = StringAttr("min"), number_attr(NEUTRAL["min"], op.init.type)

    rows = region(example("softmax"))
    found = match(rows, changed(rows, ReduceOp, least))
    assert isinstance(found, Difference)
    text = "it has region.reduce min in f32 where the pattern has region.reduce max in f32"
    assert found.text == text


def test_another_fill_is_not_found() -> None:
    def fill(op: ReadOp) -> None:
        assert op.fill is not None
        op.fill = number_attr(-0.0, op.fill.type)

    found = match(region(CONV), changed(region(CONV), ReadOp, fill))
    assert isinstance(found, Difference)
    assert found.text == "it fills X with -0.0, and the pattern with 0.0"


def test_another_guard_is_not_found() -> None:
    def guard(op: ReadOp) -> None:
        assert op.guard is not None
        first, *rest = op.guard.data.constraints
        row = AffineConstraintExpr(first.kind, first.lhs - 1, first.rhs)
        points = op.guard.data
        op.guard = AffineSetAttr(AffineSet(points.num_dims, points.num_symbols, (row, *rest)))

    found = match(region(CONV), changed(region(CONV), ReadOp, guard))
    assert isinstance(found, Difference)
    assert found.text == "it reads X at other points than the pattern"


def test_another_index_is_not_found() -> None:
    def index(op: ReadOp) -> None:
        over = op.map.data
        n, h, w, c = over.results
        op.map = AffineMapAttr(AffineMap(over.num_dims, over.num_symbols, (n, w, h, c)))

    # The same guard, and rows and columns of the image in each other's place.
    found = match(region(CONV), changed(region(CONV), ReadOp, index))
    assert isinstance(found, Difference)
    assert found.text == "it reads X at other elements than the pattern"


def test_an_index_that_is_written_in_another_way_is_found() -> None:
    def index(op: ReadOp) -> None:
        over = op.map.data
        results = tuple((e * 2 + 1) // 2 for e in over.results)
        op.map = AffineMapAttr(AffineMap(over.num_dims, over.num_symbols, results))

    other = changed(region(add_relu()), ReadOp, index)
    assert sizes(matched(region(add_relu()), other)) == {"M": "M", "N": "N"}


def test_one_output_more_is_not_found() -> None:
    kind = "!frontend.tensor<[M, N], f32>"
    two = (
        add_relu()
        .replace(f"(Y: {kind})", f"(Y: {kind}, Z: {kind})")
        .replace(f"frontend.output %1 : {kind}", f"frontend.output %1, %0 : {kind}, {kind}")
    )
    found = match(region(add_relu()), region(two))
    assert isinstance(found, Difference)
    assert found.text == "it has 2 outputs, and the pattern has 1"


def test_one_tensor_is_not_two() -> None:
    kind = "!frontend.tensor<[M, N], f32>"
    twice = (
        f"frontend.graph @f(%X: {kind}) -> (Y: {kind}) {{\n"
        f"  %0 = frontend.elementwise mul %X, %X : ({kind}, {kind}) -> {kind}\n"
        f"  frontend.output %0 : {kind}\n}}\n"
    )
    both = twice.replace("(%X: ", f"(%Z: {kind}, %X: ").replace("mul %X, %X", "mul %X, %Z")
    found = match(region(both), region(twice))
    assert isinstance(found, Difference)
    assert "would be both" in found.text
    found = match(region(twice), region(both))
    assert isinstance(found, Difference)
    assert "of the pattern would be both" in found.text


def test_an_axis_inside_a_sum_is_not_the_one_outside() -> None:
    """The sum's own axis hides another one of its name, which nothing inside can mean."""

    def kernel(inner: str, labels: str, dims: str) -> str:
        val = "!region.val"
        return f"""
region.kernel @f iters [m: N, n: N]
    ins(%X: !region.memref<[N, N], f32, align 16>, %y: !region.memref<[N], f32, align 16>)
    outs(Z: !region.memref<[N, N], f32, align 16> gmem) {{
  %0 = region.read %X affine_map<(d0, d1)[s0] -> (d0, d1)>
      : !region.memref<[N, N], f32, align 16> -> {val}<[m: N, {inner}: N], f32>
  %1 = region.read %y affine_map<(d0)[s0] -> (d0)>
      : !region.memref<[N], f32, align 16> -> {val}<[{labels}: N], f32>
  %2 = region.broadcast_in_dim %1 dims {dims}
      : {val}<[{labels}: N], f32> -> {val}<[m: N, {inner}: N], f32>
  %3 = region.binary mul %0, %2 : {val}<[m: N, {inner}: N], f32>
  %4 = region.reduce sum %3 over [{inner}] init 0.0
      : {val}<[m: N, {inner}: N], f32> -> {val}<[m: N], f32>
  %5 = region.broadcast_in_dim %4 dims [0] : {val}<[m: N], f32> -> {val}<[m: N, n: N], f32>
  region.yield %5 : {val}<[m: N, n: N], f32>
}}
"""

    from polyc.test.support.gpu_text import parsed

    def made(*parts: str) -> KernelOp:
        (op,) = parsed(kernel(*parts)).ops
        assert isinstance(op, KernelOp)
        op.verify()
        return op

    hidden, plain = made("n", "n", "[1]"), made("k", "k", "[1]")
    assert isinstance(match(hidden, plain), Match)
    assert isinstance(match(plain, hidden), Match)
    rows = made("k", "m", "[0]")
    assert isinstance(match(rows, hidden), Difference)
    assert isinstance(match(hidden, rows), Difference)


# Random regions and their mutants ------------------------------------------------------

Array = NDArray[Any]


UNMATCHED = (GatherOp, ScanOp, ScatterOp)
"""Ops of regions that no pattern matches."""


def random_region(seed: int) -> tuple[KernelOp, Mapping[str, int]]:
    """A region of a random program, all of whose inputs are read, and sizes for it."""
    for number in count(1000 * seed):
        program = drawn(random.Random(number))
        ctx = make_context()
        try:
            for name in PASSES:
                run_pass(ctx, build(name, "sm_90a"), program.module)
        except PolycError:
            continue  # not every program has kernels
        for found in forms(program.module):
            symbols = {s: program.sizes.get(s, 3) for s in found.symbol_names}
            read = all(arg.uses.get_length() for arg in found.ins)
            if any(isinstance(op, UNMATCHED) for op in found.walk()):
                continue
            if found.ins and read and all(fact.holds(symbols) for fact in found.facts):
                return found, symbols
    raise AssertionError


def mutants(kernel: KernelOp, dice: random.Random) -> Iterator[KernelOp]:
    """Copies of a region that differ in one place, as far as they verify."""
    length = len(list(kernel.body.block.ops))
    for number in dice.sample(range(length), min(length, 12)):
        for way in range(3):
            copy = copied(kernel)
            ops = list(copy.body.block.ops)
            if not _mutated(ops, number, way, dice):
                continue
            try:
                copy.verify()
            except VerifyException:
                continue
            yield copy


def _mutated(ops: list[Operation], number: int, way: int, dice: random.Random) -> bool:
    op = ops[number]
    if way == 0:
        # Another value of the same type as an operand.
        places = [i for i, v in enumerate(op.operands) if isinstance(v.owner, Operation)]
        if not places:
            return False
        place = dice.choice(places)
        kind = op.operands[place].type
        values = [v for o in ops[:number] for v in o.results if v.type == kind]
        others = [v for v in values if v is not op.operands[place]]
        if others:
            op.operands[place] = dice.choice(others)
        return bool(others)
    match op:
        case BinaryOp() if way == 1:
            op.fn = StringAttr(dice.choice([f for f in ("add", "sub", "mul") if f != op.fn.data]))
        case BinaryOp() | SelectOp():
            op.operands[-2], op.operands[-1] = op.operands[-1], op.operands[-2]
        case UnaryOp():
            op.fn = StringAttr("neg" if op.fn.data != "neg" else "abs")
        case ConstantOp():
            more = op.number + 1 + way
            less = op.number - 1 - way
            kind = op.value.type
            fits = not is_integer(kind) or holds(kind, more)
            op.value = number_attr(more if fits else less, kind)
        case ReduceOp() if op.acc is None or op.fn.data != "sum":
            fn = "max" if op.fn.data != "max" else "min"
            op.fn = StringAttr(fn)
            op.init = number_attr(neutral(fn, op.init.type), op.init.type)
        case ReadOp() if way == 1 and op.fill is not None:
            op.fill = number_attr(op.fill.value.data + 1, op.fill.type)
        case ReadOp() if len(op.map.data.results) > 1:
            over = op.map.data
            results = (*over.results[1:], over.results[0])
            op.map = AffineMapAttr(AffineMap(over.num_dims, over.num_symbols, results))
        case _:
            return False
    return True


def agrees(pattern: KernelOp, target: KernelOp, found: Match, symbols: Mapping[str, int]) -> bool:
    """Whether both give the same numbers, of tensors that are each other's."""
    signature = Signature.of(target)
    assert signature is not None
    bound = {name: size.evaluate(symbols) for name, size in found.symbols.items()}
    own = {**symbols, **bound}
    first, others = len(pattern.ins), len(target.ins)
    for draw in ("uniform", "mixed"):
        inputs = make_inputs(signature, symbols, 1, draw)
        wanted = estimated(target, inputs, symbols)
        assert wanted is not None
        given: list[Array] = []
        for place, kind in zip(found.tensors[:first], pattern.tensors, strict=False):
            shape = [size.evaluate(own) for size in kind.shape]
            given.append(np.reshape(inputs[place], shape))
        outputs = playback.run(pattern, given, own)
        for place, output in zip(found.tensors[first:], outputs, strict=True):
            estimate = wanted[place - others]
            kind = target.outs.data[place - others].element_type
            if tolerance_check(np.reshape(output, estimate.shape), estimate, kind) is not None:
                return False
    return True


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(60))
def test_no_mutant_of_a_region_is_taken_for_it(seed: int) -> None:
    kernel, symbols = random_region(seed)
    own = match(kernel, kernel)
    assert isinstance(own, Match), own
    assert agrees(kernel, kernel, own, symbols)
    for mutant in mutants(kernel, random.Random(seed)):
        found = match(kernel, mutant)
        if isinstance(found, Match):
            assert agrees(kernel, mutant, found, symbols), (str(kernel), str(mutant))


def test_mutants_are_told_apart() -> None:
    """The test above can fail: most mutants compute something else, and are refused."""
    kernel = region(example("layer_norm"))
    found = [match(kernel, m) for m in mutants(kernel, random.Random(0))]
    assert len(found) > 8
    assert sum(isinstance(one, Difference) for one in found) > len(found) // 2
