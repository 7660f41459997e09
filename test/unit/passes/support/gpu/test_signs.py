"""Which index values are never negative: what shows it, and what does not."""

from __future__ import annotations

import pytest
from xdsl.dialects import test

from polyc.passes.support.gpu.signs import never_negative
from polyc.test.support.gpu_text import kernel, parsed

HEAD = """
%m1 = arith.constant -1 : index
%0 = arith.constant 0 : index
%8 = arith.constant 8 : index
%t = gpu.thread_id
%any, %c = "test.op"() : () -> (index, i1)
"""

NATURAL = {
    "a thread": "%x = arith.addi %t, %0 : index",
    "a size": "%x = arith.muli %M, %t : index",
    "a constant": "%x = arith.constant 0 : index",
    "either of two": "%x = arith.select %c, %t, %8 : index",
    "the larger of two, one of which is": "%x = arith.maxsi %any, %0 : index",
    "the smaller of two that are": "%x = arith.minsi %t, %8 : index",
    "a map": "%x = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1)>(%t, %8)",
    "a map that needs isl": "%x = affine.apply affine_map<(d0) -> (d0 - d0 floordiv 8 * 8)>(%any)",
    "a remainder": "%x = affine.apply affine_map<(d0) -> (d0 mod 8)>(%any)",
    "a quotient": "%x = arith.divui %t, %8 : index",
}
UNKNOWN = {
    "anything": "%x = arith.addi %any, %0 : index",
    "a negative constant": "%x = arith.constant -1 : index",
    "a difference": "%x = arith.subi %t, %8 : index",
    "one of two that is not": "%x = arith.select %c, %t, %m1 : index",
    "the smaller of two, one of which is not": "%x = arith.minsi %any, %0 : index",
    "the larger of two that are not": "%x = arith.maxsi %any, %m1 : index",
    "a map that goes below": "%x = affine.apply affine_map<(d0) -> (d0 - 1)>(%t)",
    "a map of a symbol that may": "%x = affine.apply affine_map<()[s0] -> (s0)>()[%any]",
    "a quotient": "%x = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%any)",
}


def natural(lines: str) -> bool:
    """Whether the operand of the last ``test.op`` is never negative."""
    module = parsed(kernel(HEAD + lines, "%M: index = symbol M"))
    used = [op for op in module.walk() if isinstance(op, test.TestOp) and op.operands]
    return never_negative(used[-1].operands[0])


@pytest.mark.parametrize("line", NATURAL.values(), ids=NATURAL)
def test_it_is_seen(line: str) -> None:
    assert natural(f'{line}\n"test.op"(%x) : (index) -> ()')


@pytest.mark.parametrize("line", UNKNOWN.values(), ids=UNKNOWN)
def test_it_is_not_claimed(line: str) -> None:
    assert not natural(f'{line}\n"test.op"(%x) : (index) -> ()')


@pytest.mark.parametrize(("first", "found"), [("%0", True), ("%any", False)])
def test_a_loop_s_variable_is_as_its_first_value(first: str, found: bool) -> None:
    loop = f'scf.for %i = {first} to %8 step %8 {{ "test.op"(%i) : (index) -> () }}'
    assert natural(loop) is found


def test_a_long_chain_is_no_deep_recursion() -> None:
    lines = ["%v0 = arith.addi %t, %8 : index"]
    lines += [f"%v{i} = arith.addi %v{i - 1}, %8 : index" for i in range(1, 3000)]
    assert natural("\n".join(lines) + '\n"test.op"(%v2999) : (index) -> ()')


@pytest.mark.parametrize(("name", "seen"), [("r", True), ("n", True), ("carried", False)])
def test_a_tile_loops_values(name: str, seen: bool) -> None:
    """Coordinates and ordinals count from 0; what goes on from tile to tile may be anything."""
    loop = f"""
%end = gpu.tile_loop (%r, %s, %n) = [%M, %M] tile <8, 8> raster "row" 1
    iter_args(%carried = %m1) -> (index) {{
  "test.op"(%{name}) : (index) -> ()
  gpu.yield %any : index
}}"""
    assert natural(loop) is seen
