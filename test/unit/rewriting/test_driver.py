"""The driver of patterns: what it changes, where new ops are placed, what errors say."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, i32
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.rewriting import driver
from polyc.rewriting.driver import located, matched_types, rewrite, verify, verify_dominance
from polyc.tools.parsing import parse_text

TEXT = """\
%0 = arith.constant 1 : i32
%1 = arith.addi %0, %0 : i32
%2 = arith.addi %1, %0 : i32
"""


class AddToMul(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        two = arith.ConstantOp.from_int_and_width(2, 32)
        rewriter.replace(op, [two, arith.MuliOp(op.lhs, two.result)])


class CountDown(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.ConstantOp, rewriter: PatternRewriter, /) -> None:
        value = op.value
        assert isinstance(value, builtin.IntegerAttr)
        number = value.value.data
        if number > 0:
            rewriter.replace(op, arith.ConstantOp.from_int_and_width(number - 1, 32))


class Refuses(RewritePattern):
    def __init__(self, error: Exception) -> None:
        self.error = error

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        raise self.error


def lines(module: ModuleOp) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for op in module.ops:
        assert isinstance(op.location, FileLineColLoc)
        found.append((op.name, op.location.line.data))
    return found


def test_new_ops_are_placed_where_the_matched_op_was(ctx: Context):
    module = parse_text(ctx, TEXT, "t.mlir")
    assert rewrite(module, [AddToMul()])
    assert lines(module) == [
        ("arith.constant", 1),
        ("arith.constant", 2),
        ("arith.muli", 2),
        ("arith.constant", 3),
        ("arith.muli", 3),
    ]
    assert not rewrite(module, [AddToMul()])


def test_recursive_repeats_and_plain_does_not(ctx: Context):
    def value(module: ModuleOp) -> Attribute:
        first = module.body.block.first_op
        assert isinstance(first, arith.ConstantOp)
        return first.value

    once = parse_text(ctx, "%0 = arith.constant 5 : i32", "t.mlir")
    rewrite(once, [CountDown()])
    assert value(once) == builtin.IntegerAttr(4, i32)
    often = parse_text(ctx, "%0 = arith.constant 5 : i32", "t.mlir")
    rewrite(often, [CountDown()], recursive=True)
    assert value(often) == builtin.IntegerAttr(0, i32)


def test_a_user_that_stands_nowhere_is_not_visited(ctx: Context):
    """An op that was made and left out uses its operands, and has no place to insert anything."""
    module = parse_text(ctx, TEXT, "t.mlir")
    first = next(iter(module.ops))
    assert isinstance(first, arith.ConstantOp)
    lost = arith.AddiOp(first, first)
    assert rewrite(module, [CountDown(), AddToMul()], recursive=True)
    assert lost.parent is None and lost.lhs is not first.result


def test_unused_pure_ops_stay(ctx: Context):
    module = parse_text(ctx, "%0 = arith.constant 0 : i32", "t.mlir")
    assert not rewrite(module, [CountDown()], recursive=True)
    assert len(module.ops) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PolycError("Bad", "sentence"), "Bad"), (VerifyException("sentence"), "InvalidIR")],
)
def test_a_pattern_that_refuses_says_where(ctx: Context, error: Exception, kind: str):
    module = parse_text(ctx, TEXT, "t.mlir")
    with pytest.raises(PolycError) as caught:
        rewrite(module, [Refuses(error)])
    assert caught.value.format() == f"t.mlir:2:1: error[{kind}]: sentence"
    assert not getattr(caught.value, "__notes__", [])


def test_located_keeps_what_is_placed(ctx: Context):
    module = parse_text(ctx, TEXT, "t.mlir")
    first, second, _ = module.ops
    inner = arith.ConstantOp.from_int_and_width(1, 32)
    outer = ModuleOp([inner])
    assert located(outer, first) is outer
    assert outer.location == inner.location == first.location
    located(outer, second)
    assert outer.location == first.location


def test_verify_names_the_op(ctx: Context):
    module = parse_text(ctx, TEXT, "t.mlir")
    last = module.body.block.last_op
    assert last is not None
    last.results[0]._type = builtin.i64  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(PolycError) as caught:
        verify(module)
    assert caught.value.format().startswith("t.mlir:3:1: error[InvalidIR]: ")
    assert "\n" not in caught.value.format()


def move_before(op: Operation, other: Operation) -> None:
    op.detach()
    block = other.parent_block()
    assert block is not None
    block.insert_op_before(op, other)


def test_dominance_in_a_block(ctx: Context):
    module = parse_text(ctx, TEXT, "t.mlir")
    verify_dominance(module)
    first, second, _ = module.ops
    move_before(second, first)
    with pytest.raises(PolycError) as caught:
        verify(module)
    assert caught.value.kind == "UseBeforeDefinition"
    assert str(caught.value).startswith("t.mlir:2:1: ")


def test_dominance_out_of_a_region(ctx: Context):
    text = "builtin.module { %a = arith.constant 1 : i32 }\n%b = arith.constant 1 : i32"
    module = parse_text(ctx, text, "t.mlir")
    nested, outside = module.ops
    value = next(iter(nested.regions[0].block.ops)).results[0]
    block = module.body.block
    use = arith.AddiOp(outside.results[0], value)
    block.add_op(use)
    with pytest.raises(PolycError) as caught:
        verify_dominance(module)
    assert "operand 1" in caught.value.message


def test_a_region_may_use_what_is_around_it(ctx: Context):
    text = """
%c = arith.constant 1 : i1
%x = arith.constant 1 : i32
scf.if %c {
  %y = arith.addi %x, %x : i32
}
"""
    verify(parse_text(ctx, text, "t.mlir"))


def test_an_isolated_region_may_not(ctx: Context):
    text = """
%x = arith.constant 1 : i32
func.func @f() { func.return }
"""
    module = parse_text(ctx, text, "t.mlir")
    constant, function = module.ops
    block = function.regions[0].block
    last = block.last_op
    assert last is not None
    use = arith.AddiOp(constant.results[0], constant.results[0])
    block.insert_op_before(use, last)
    with pytest.raises(PolycError):
        verify_dominance(module)


def test_dominance_over_branches(ctx: Context):
    text = """
func.func @f(%c: i1) -> i32 {
  cf.cond_br %c, ^a, ^b
^a:
  %x = arith.constant 1 : i32
  cf.br ^end(%x : i32)
^b:
  %y = arith.constant 2 : i32
  cf.br ^end(%y : i32)
^end(%z: i32):
  func.return %z : i32
}
"""
    module = parse_text(ctx, text, "t.mlir")
    verify(module)
    blocks = next(iter(module.ops)).regions[0].blocks
    first = blocks[1].first_op
    last = blocks[3].last_op
    assert first is not None and last is not None
    last.operands[0] = first.results[0]
    with pytest.raises(PolycError) as caught:
        verify_dominance(module)
    assert caught.value.kind == "UseBeforeDefinition"


class Seen(RewritePattern):
    """Any op, not declared by a decorator."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        self.names.append(op.name)


class SeenTwo(Seen):
    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: arith.AddiOp | builtin.ModuleOp, rewriter: PatternRewriter, /
    ) -> None:
        self.names.append(op.name)


class SeenBase(Seen):
    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: arith.SignlessIntegerBinaryOperation, rewriter: PatternRewriter, /
    ) -> None:
        self.names.append(op.name)


def test_only_ops_that_some_pattern_matches_are_visited(ctx: Context):
    module = parse_text(ctx, f"builtin.module {{\n{TEXT}}}", "t.mlir")
    assert matched_types(AddToMul()) == (arith.AddiOp,)
    assert matched_types(SeenTwo()) == (arith.AddiOp, builtin.ModuleOp)
    assert matched_types(Seen()) is None
    everything = ["builtin.module", "arith.constant", "arith.addi", "arith.addi"]
    for patterns, expected in (
        ([Seen()], everything),
        ([SeenTwo()], ["builtin.module", "arith.addi", "arith.addi"]),
        ([SeenBase()], ["arith.addi", "arith.addi"]),
        ([SeenTwo(), Seen()], everything),
    ):
        rewrite(ModuleOp([module.clone()]), patterns)
        assert patterns[-1].names == expected


def test_inner_first_visits_an_op_after_those_in_it(ctx: Context):
    module = parse_text(ctx, f"builtin.module {{\n{TEXT}}}", "t.mlir")
    for seen, expected in (
        (SeenTwo(), ["arith.addi", "arith.addi", "builtin.module"]),
        (Seen(), ["arith.constant", "arith.addi", "arith.addi", "builtin.module"]),
    ):
        rewrite(ModuleOp([module.clone()]), [seen], inner_first=True)
        assert seen.names == expected


class Swaps(RewritePattern):
    """a + b to b + a, for good."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, arith.AddiOp(op.rhs, op.lhs))


class SwapsInPlace(RewritePattern):
    """The same, of any op, without a new one."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, arith.AddiOp):
            op.operands = [op.rhs, op.lhs]
            rewriter.notify_op_modified(op)


@pytest.mark.parametrize("pattern", [Swaps(), SwapsInPlace()])
def test_patterns_that_do_not_end_are_stopped(
    pattern: RewritePattern, ctx: Context, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver, "MOST_REWRITES", 500)
    assert rewrite(parse_text(ctx, TEXT, "t.mlir"), [pattern])
    with pytest.raises(PolycError) as caught:
        rewrite(parse_text(ctx, TEXT, "t.mlir"), [pattern], recursive=True)
    error = caught.value
    assert error.kind == "EndlessRewrite" and type(pattern).__name__ in error.message
    assert error.place is not None and error.place.line in (2, 3)


def test_what_each_op_may_be_rewritten_adds_up(ctx: Context, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "MOST_REWRITES", 0)
    text = "".join(f"%{i} = arith.constant {driver.MOST_EACH} : i32\n" for i in range(9))
    assert rewrite(parse_text(ctx, text, "t.mlir"), [CountDown()], recursive=True)
