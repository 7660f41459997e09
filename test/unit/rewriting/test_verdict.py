"""The quick verdict on a module: yes only where xDSL's verifier finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.pipeline import ORDER, build
from polyc.rewriting import verdict
from polyc.rewriting.driver import verify
from polyc.rewriting.verdict import verifies
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text

TEXT = """\
func.func @f(%a: i32, %c: i1) -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.addi %a, %0 : i32
  %2 = scf.if %c -> (i32) {
    %3 = arith.muli %1, %0 : i32
    scf.yield %3 : i32
  } else {
    scf.yield %1 : i32
  }
  func.return %2 : i32
}
func.func @g(%b: i1) {
  cf.cond_br %b, ^one, ^two
^one:
  %x = arith.constant 2 : i32
  cf.br ^two
^two:
  func.return
}
"""


@irdl_op_definition
class Wary(IRDLOperation):
    """Verifies where its operand's other users are additions: that is not written in it."""

    name = "test.wary"
    value = operand_def()

    def verify_(self) -> None:
        if any(not isinstance(use.operation, Wary | arith.AddiOp) for use in self.value.uses):
            raise VerifyException("a user is no addition")


def op(module: ModuleOp, kind: type[Operation], number: int = 0) -> Operation:
    return [o for o in module.walk() if isinstance(o, kind)][number]


Fault = Callable[[ModuleOp], None]
FAULTS: list[Fault] = []


def fault(does: Fault) -> Fault:
    FAULTS.append(does)
    return does


@fault
def drops_a_property(m: ModuleOp) -> None:
    del op(m, arith.ConstantOp).properties["value"]


@fault
def adds_a_property(m: ModuleOp) -> None:
    op(m, arith.MuliOp).properties["more"] = builtin.UnitAttr()


@fault
def changes_a_property(m: ModuleOp) -> None:
    op(m, arith.ConstantOp).properties["value"] = builtin.IntegerAttr(1, builtin.i64)


@fault
def changes_a_type(m: ModuleOp) -> None:
    op(m, arith.AddiOp).results[0]._type = builtin.i64  # pyright: ignore[reportPrivateUsage]


@fault
def changes_an_argument(m: ModuleOp) -> None:
    block = op(m, func.FuncOp).regions[0].block
    block.args[0]._type = builtin.i64  # pyright: ignore[reportPrivateUsage]


@fault
def takes_an_operand(m: ModuleOp) -> None:
    add = op(m, arith.AddiOp)
    add.operands = add.operands[:1]


@fault
def takes_the_terminator(m: ModuleOp) -> None:
    op(m, scf.YieldOp).detach()


@fault
def empties_a_block(m: ModuleOp) -> None:
    for inner in reversed(list(op(m, scf.IfOp).regions[0].block.ops)):
        inner.detach()


@fault
def adds_a_block(m: ModuleOp) -> None:
    op(m, scf.IfOp).regions[0].add_block(Block([scf.YieldOp(op(m, arith.ConstantOp).results[0])]))


@fault
def ends_early(m: ModuleOp) -> None:
    last = op(m, func.ReturnOp)
    last.detach()
    block = op(m, func.FuncOp).regions[0].block
    assert block.first_op is not None
    block.insert_op_before(last, block.first_op)


@fault
def moves_a_definition(m: ModuleOp) -> None:
    first = op(m, arith.ConstantOp)
    first.detach()
    op(m, func.FuncOp).regions[0].block.insert_op_before(first, op(m, scf.IfOp))


@fault
def asks_the_other_branch(m: ModuleOp) -> None:
    op(m, scf.YieldOp, 1).operands = [op(m, arith.MuliOp).results[0]]


@fault
def leaves_a_branch(m: ModuleOp) -> None:
    inner = op(m, arith.MuliOp).results[0]
    op(m, func.ReturnOp).operands = [inner]


@fault
def comes_from_another_function(m: ModuleOp) -> None:
    op(m, func.ReturnOp).operands = [op(m, arith.ConstantOp, 1).results[0]]


@fault
def leaves_a_block_that_may_be_passed(m: ModuleOp) -> None:
    blocks = list(op(m, func.FuncOp, 1).regions[0].blocks)
    use = arith.AddiOp(op(m, arith.ConstantOp, 1), op(m, arith.ConstantOp, 1))
    assert blocks[2].first_op is not None
    blocks[2].insert_op_before(use, blocks[2].first_op)


@fault
def branches_to_another_function(m: ModuleOp) -> None:
    branch = op(m, func.FuncOp, 1).regions[0].blocks[1].last_op
    assert branch is not None
    branch.successors = [op(m, func.FuncOp).regions[0].block]


@fault
def leaves_its_parent(m: ModuleOp) -> None:
    op(m, func.ReturnOp).parent = None


@fault
def stands_in_another_op(m: ModuleOp) -> None:
    last = op(m, func.ReturnOp)
    last.detach()
    block = op(m, scf.IfOp).regions[0].block
    op(m, scf.YieldOp).detach()
    block.add_op(last)


@fault
def names_twice(m: ModuleOp) -> None:
    other = op(m, func.FuncOp, 1)
    other.properties["sym_name"] = builtin.StringAttr("f")


@fault
def erases_what_is_used(m: ModuleOp) -> None:
    first = op(m, arith.ConstantOp)
    first.detach()
    first.erase(safe_erase=False)


@pytest.fixture
def module(ctx: Context) -> ModuleOp:
    return parse_text(ctx, TEXT, "t.mlir")


def test_a_right_module_verifies(module: ModuleOp):
    module.verify()
    assert verifies(module)
    assert verifies(module.clone())


@pytest.mark.parametrize("does", FAULTS, ids=lambda does: does.__name__)
def test_a_fault_is_seen_in_a_module_that_was_right(module: ModuleOp, does: Fault):
    assert verifies(module)
    does(module)
    assert not verifies(module)
    with pytest.raises((PolycError, ValueError)):
        verify(module)


def test_an_ops_own_verifier_is_asked_each_time(module: ModuleOp):
    first, add = op(module, arith.ConstantOp), op(module, arith.AddiOp)
    block = add.parent_block()
    assert block is not None
    block.insert_op_after(Wary(operands=[add.results[0]]), add)
    assert not verifies(module)  # the product in the branch
    op(module, arith.MuliOp).operands = [first.results[0], first.results[0]]
    op(module, scf.YieldOp, 1).operands = [first.results[0]]
    assert verifies(module)
    op(module, scf.YieldOp, 1).operands = [add.results[0]]
    assert not verifies(module)


@irdl_op_definition
class Counted(IRDLOperation):
    """Its verifier counts, and refuses in a function of the name that it is given."""

    name = "test.counted"
    ASKED: ClassVar[list[str]] = []
    REFUSED: ClassVar[list[str]] = []

    def verify_(self) -> None:
        around = self.parent_op()
        name = around.sym_name.data if isinstance(around, func.FuncOp) else "module"
        self.ASKED.append(name)
        if name in self.REFUSED:
            raise VerifyException("no")


def test_a_function_is_asked_again_where_it_or_what_is_around_changed(module: ModuleOp):
    asked = Counted.ASKED
    for number in range(2):
        block = op(module, func.FuncOp, number).regions[0].blocks[0]
        assert block.first_op is not None
        block.insert_op_before(Counted(), block.first_op)
    once = op(module, func.FuncOp)

    def look(at: ModuleOp = module) -> list[str]:
        asked.clear()
        assert verifies(at)
        return sorted(asked)

    # Blocks of @g follow one another: it is asked each time.
    assert look() == ["f", "g"]
    assert look() == look(module.clone()) == ["g"]
    op(module, arith.MuliOp).attributes["note"] = builtin.UnitAttr()
    assert look() == ["f", "g"]
    assert look() == ["g"]
    op(module, func.FuncOp, 1).properties["sym_name"] = builtin.StringAttr("h")
    assert look() == ["f", "h"]
    module.body.block.add_op(Counted())
    assert look() == ["f", "h", "module"]
    # What is wrong is not remembered, neither as right nor as wrong.
    once.properties["sym_name"] = builtin.StringAttr("bad")
    Counted.REFUSED.append("bad")
    assert not verifies(module) and not verifies(module)
    Counted.REFUSED.clear()
    assert look() == ["bad", "h", "module"]
    assert look() == ["h", "module"]


def test_the_same_ops_on_other_operands_are_something_else(module: ModuleOp):
    add, first = op(module, arith.AddiOp), op(module, arith.ConstantOp)
    block = add.parent_block()
    assert block is not None
    block.insert_op_after(Counted(), first)
    assert verifies(module) and verifies(module)
    Counted.ASKED.clear()
    add.operands = [first.results[0], add.operands[0]]
    assert verifies(module) and Counted.ASKED == ["f"]


def test_an_op_in_another_is_for_xdsl(module: ModuleOp):
    assert not verifies(op(module, func.FuncOp))
    verify(op(module, func.FuncOp))


def test_what_is_remembered_has_a_bound(module: ModuleOp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verdict, "_MOST", 3)
    monkeypatch.setattr(verdict, "_written", {})
    assert verifies(module)
    assert 0 < len(verdict._written) <= 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_op_of_a_compilation_has_a_quick_verdict(ctx: Context, arch: str):
    text = (ROOT / "examples" / "gemm_bias_relu.mlir").read_text()
    module = parse_text(ctx, text, "x.mlir")
    for name in ORDER:
        build(name, arch).apply(ctx, module)
        assert verifies(module), name
