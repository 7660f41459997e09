"""Merging equal ops and dropping unused ones, beside upstream's; what ops do to memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce

from polyc.rewriting.driver import verify
from polyc.rewriting.effects import Effect, effect_of, is_movable, is_unused
from polyc.rewriting.equal_ops import drop_unused, merge_equal
from polyc.test.support.gpu_text import parsed, printed

MEMORY = "memref<8xindex>"
HEAD = f'%a, %b, %c, %m = "test.op"() : () -> (index, index, i1, {MEMORY})\n'
LOAD = f"memref.load %m[%a] : {MEMORY}"
STORE = f"memref.store %b, %m[%a] : {MEMORY}"


def names(text: str) -> list[str]:
    """The ops that are left of ``text``, without the first and the last."""
    module = parsed(HEAD + text)
    verify(module)
    merge_equal(module.body)
    drop_unused(module.body)
    verify(module)
    return [op.name for op in module.walk()][2:-1]


def used(*values: str) -> str:
    return f'\n"test.op"({", ".join(values)}) : ({", ".join(["index"] * len(values))}) -> ()'


MERGED = {
    "arithmetic": "%x = arith.addi %a, %b : index\n%y = arith.addi %a, %b : index",
    "what follows from it": (
        "%u = arith.addi %a, %b : index\n%v = arith.addi %a, %b : index\n"
        "%x = arith.muli %u, %a : index\n%y = arith.muli %v, %a : index"
    ),
    "reads with no write between them": f"%x = {LOAD}\n%y = {LOAD}",
    "reads over an allocation": f"%x = {LOAD}\n%n = memref.alloca() : {MEMORY}\n%y = {LOAD}"
    f'\n"test.op"(%n) : ({MEMORY}) -> ()',
}
KEPT = {
    "other operands": "%x = arith.addi %a, %b : index\n%y = arith.addi %b, %a : index",
    "other attributes": "%x = arith.constant 1 : index\n%y = arith.constant 2 : index",
    "a write between reads": f"%x = {LOAD}\n{STORE}\n%y = {LOAD}",
    "a write in a loop between reads": (
        f"%x = {LOAD}\nscf.for %i = %a to %b step %a {{ {STORE} }}\n%y = {LOAD}"
    ),
    "an op of unknown effects between reads": f'%x = {LOAD}\n"test.op"() : () -> ()\n%y = {LOAD}',
    "what has unknown effects": (
        '%x = "test.op"() : () -> (index)\n%y = "test.op"() : () -> (index)'
    ),
    "allocations": (
        f"%m0 = memref.alloca() : {MEMORY}\n%m1 = memref.alloca() : {MEMORY}\n"
        f'"test.op"(%m0, %m1) : ({MEMORY}, {MEMORY}) -> ()\n%x = arith.addi %a, %b : index\n'
        "%y = arith.muli %a, %b : index"
    ),
}


@pytest.mark.parametrize("text", MERGED.values(), ids=MERGED)
def test_merge_equal_merges(text: str) -> None:
    left = names(text + used("%x", "%y"))
    assert len(left) == len(names(text + used("%x", "%x")))


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_merge_equal_keeps(text: str) -> None:
    before = [op.name for op in parsed(HEAD + text + used("%x", "%y")).walk()][2:-1]
    assert names(text + used("%x", "%y")) == before


def test_merge_equal_looks_around_a_block_but_not_beside_it() -> None:
    add = "arith.addi %a, %b : index"
    branch = "scf.if %c {{\n%{0} = " + add + used("%{0}") + "\n}}\n"
    both = branch.format("x") + branch.format("y")
    assert names(both).count("arith.addi") == 2
    assert names(f"%z = {add}\n{both}" + used("%z")).count("arith.addi") == 1


def test_merge_equal_stops_at_an_isolated_op() -> None:
    one = "%{0} = arith.constant 1 : index" + used("%{0}")
    text = one.format("x") + "\nbuiltin.module {\n" + one.format("y") + "\n}\n"
    assert names(text + used("%a")).count("arith.constant") == 2


def test_drop_unused_drops_what_only_unused_ops_used() -> None:
    chain = "%x = arith.addi %a, %b : index\n%y = arith.muli %x, %x : index"
    assert names(chain + used("%a")) == []
    assert names(f"%x = {LOAD}\n{STORE}" + used("%a")) == ["memref.store"]


EFFECTS = {
    "arith.addi": ("%x = arith.addi %a, %b : index", Effect.NONE),
    "arith.remui": ("%x = arith.remui %a, %b : index", Effect.NONE),
    "memref.load": (f"%x = {LOAD}", Effect.READS),
    "memref.alloca": (f"%x = memref.alloca() : {MEMORY}", Effect.ALLOCATES),
    "memref.store": (STORE, Effect.WRITES),
    "test.op": ('"test.op"() : () -> ()', Effect.WRITES),
    "scf.for, pure": ("scf.for %i = %a to %b step %a { }", Effect.NONE),
    "scf.for, writes": (f"scf.for %i = %a to %b step %a {{ {STORE} }}", Effect.WRITES),
    "scf.if, reads": (f"scf.if %c {{ %x = {LOAD} }}", Effect.READS),
}


@pytest.mark.parametrize(("text", "effect"), EFFECTS.values(), ids=EFFECTS)
def test_effect_of(text: str, effect: Effect) -> None:
    (*_, op) = parsed(HEAD + text).body.block.ops
    assert effect_of(op) is effect
    assert is_unused(op) == (effect <= Effect.READS)
    assert is_movable(type(op)) == (op.name == "arith.addi")


def test_terminators_are_used_and_stay() -> None:
    module = parsed(HEAD + "scf.for %i = %a to %b step %a { }")
    (yielded,) = (op for op in module.walk() if isinstance(op, scf.YieldOp))
    assert not is_unused(yielded) and not is_movable(type(yielded))


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Text over a few values and one memory, with branches and loops, most of it repeated."""
    fresh = iter(range(1000))

    def block(depth: int, values: list[str]) -> str:
        lines: list[str] = []
        values = list(values)
        for _ in range(draw(st.integers(1, 6))):
            kind = draw(st.sampled_from(["pure", "load", "store", "use", "if", "for"][: 6 - depth]))
            u, v = draw(st.sampled_from(values)), draw(st.sampled_from(values))
            name = f"%v{next(fresh)}"
            if kind == "pure":
                lines.append(f"{name} = arith.addi {u}, {v} : index")
                values.append(name)
            elif kind == "load":
                lines.append(f"{name} = memref.load %m[{u}] : {MEMORY}")
                values.append(name)
            elif kind == "store":
                lines.append(f"memref.store {u}, %m[{v}] : {MEMORY}")
            elif kind == "use":
                lines.append(used(u))
            elif kind == "if":
                lines.append(f"scf.if %c {{\n{block(depth + 2, values)}\n}}")
            else:
                body = block(depth + 2, [*values, name])
                lines.append(f"scf.for {name} = {u} to {v} step {u} {{\n{body}\n}}")
        return "\n".join(lines)

    return HEAD + block(0, ["%a", "%b"])


@given(programs())
def test_the_same_is_left_as_by_upstream(text: str) -> None:
    module, other = parsed(text), parsed(text)
    merge_equal(module.body)
    drop_unused(module.body)
    verify(module)
    assert isinstance(other, ModuleOp)
    cse(other)
    dce(other)
    assert printed(module) == printed(other)
