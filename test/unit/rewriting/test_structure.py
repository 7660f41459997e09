"""Keys of ops: equal for what is written alike, whatever its values are called."""

from __future__ import annotations

from xdsl.ir import BlockArgument

from polyc.dialects.gpu.kernel import KernelOp
from polyc.rewriting.structure import structure
from polyc.test.support.gpu_text import kernel, only, parsed

ONE = """
  %a = arith.constant 1 : index
  %b = arith.constant 2 : index
  %c = arith.subi %a, %b : index"""


def made(body: str, args: str = "") -> KernelOp:
    return only(parsed(kernel(body, args)), KernelOp)


def test_names_and_places_do_not_count() -> None:
    assert structure(made(ONE)) == structure(made(ONE.replace("%a", "%first")))
    assert structure(made(ONE)) == structure(made("\n\n" + ONE))


def test_operands_numbers_and_ops_do() -> None:
    for other in (
        ONE.replace("subi %a, %b", "subi %b, %a"),
        ONE.replace("constant 2", "constant 3"),
        ONE.replace("subi", "addi"),
        ONE + "\n  %d = arith.constant 1 : index",
        ONE.replace("1 : index", "1 : i32").replace("%a, %b", "%b, %b"),
    ):
        assert structure(made(ONE)) != structure(made(other))


def test_what_is_left_out_does_not_count() -> None:
    one, other = made(ONE), made(ONE)
    other.sym_name = type(other.sym_name)("l")
    assert structure(one) != structure(other)
    assert structure(one, ("sym_name",)) == structure(other, ("sym_name",))


def test_arguments_in_the_order_of_their_uses() -> None:
    body = "\n  %c = arith.subi %M, %N : index"
    left = made(body, "%M: index = symbol M, %N: index = symbol N")
    right = made(body, "%N: index = symbol N, %M: index = symbol M")
    assert structure(left, ("bindings",)) != structure(right, ("bindings",))
    turned = made(body.replace("%M, %N", "%N, %N"), "%N: index = symbol N, %M: index = symbol M")
    used: list[BlockArgument] = []
    first: list[BlockArgument] = []
    keys = [structure(op, ("bindings",), into) for op, into in ((left, first), (right, used))]
    assert keys[0] == keys[1]
    assert [arg.index for arg in first] == [0, 1] and [arg.index for arg in used] == [1, 0]
    assert structure(turned, ("bindings",), []) != keys[0]
