"""``gpu-split-steps``: the loops do what the one did, step by step; what is cut and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from polyc.dialects.gpu import tile
from polyc.rewriting.emit import PREDICATES
from polyc.test.support.gpu_text import find, kernel, printed, run, unchanged
from polyc.test.support.turns import examples

PASS = "gpu-split-steps"
ACC = "!gpu.fragment<[64, 64], f32>"


def fill(name: str) -> str:
    return f"gpu.fill %zero, %{name} : {ACC}"


def around(loop: str) -> str:
    """A kernel of a loop, its numbers and the fragments that it fills."""
    fragments = "\n".join(
        f"%{name} = gpu.fragment : {ACC}" for name in ("each", "cut", "whole", "more", "after")
    )
    numbers = "\n".join(f"%c{i} = arith.constant {i} : index" for i in range(3))
    return kernel(
        f"%ring = gpu.ring consumers 1 : !gpu.ring<2>\n%zero = arith.constant 0.0 : f32\n"
        f"{fragments}\n{numbers}\n{loop}",
        "%n: index = symbol N, %a: index = symbol A, %b: index = symbol B",
    )


GUARD = f"scf.if %p {{ {fill('cut')} }} else {{ {fill('whole')} }}"


def loop(condition: str, guard: str = GUARD, step: str = "%c1", low: str = "%c1") -> str:
    """A loop to n whose guard has a condition %p."""
    return around(
        f"scf.for %i = {low} to %n step {step} {{ {fill('each')}\n{condition}\n{guard} }}"
    )


Trace = list[tuple[str, int]]


def trace(module: Operation, sizes: Mapping[str, int]) -> Trace:
    """The fragments that are filled, in order, each with the number of fills before it."""
    found: list[str] = []
    values: dict[SSAValue, int] = {}

    def walk(block: Block) -> list[int]:
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [values[v] for v in op.operands]
            step(op)
        return []

    def step(op: Operation) -> None:
        args = [values.get(v, 0) for v in op.operands]
        match op:
            case tile.FillOp():
                found.append(str(op.fragment.name_hint))
            case scf.ForOp():
                low, high, by, *carried = args
                for i in range(low, high, by):
                    values.update(zip(op.body.block.args, [i, *carried], strict=True))
                    carried = walk(op.body.block)
                values.update(zip(op.results, carried, strict=True))
            case scf.IfOp():
                side = op.true_region if args[0] else op.false_region
                if side.blocks:
                    walk(side.block)
            case _ if op.results:
                values[op.results[0]] = value(op, args)
            case _:
                pass

    def value(op: Operation, args: list[int]) -> int:
        match op:
            case arith.ConstantOp(value=IntegerAttr() as number):
                return int(number.value.data)
            case affine.ApplyOp():
                m = op.map.data
                return m.eval(args[: m.num_dims], args[m.num_dims :])[0]
            case arith.CmpiOp():
                left, right = args
                return {
                    "slt": left < right,
                    "sle": left <= right,
                    "sgt": left > right,
                    "sge": left >= right,
                    "eq": left == right,
                }[PREDICATES[op.predicate.value.data]]
            case arith.MinSIOp():
                return min(args)
            case arith.MaxSIOp():
                return max(args)
            case arith.AddiOp():
                return args[0] + args[1]
            case arith.SubiOp():
                return args[0] - args[1]
            case arith.MuliOp():
                return args[0] * args[1]
            case arith.AndIOp():
                return args[0] & args[1]
            case arith.OrIOp():
                return args[0] | args[1]
            case arith.SelectOp():
                return args[1] if args[0] else args[2]
            case _:
                return 0

    (inside,) = (op for op in module.walk() if op.name == "gpu.kernel")
    body = inside.regions[0].block
    values.update((v, sizes[str(v.name_hint)]) for v in body.args)
    walk(body)
    return [(name, found[:i].count(name)) for i, name in enumerate(found)]


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, set[int]]:
    """A condition %p, and the step's factors in it."""
    count = draw(st.integers(1, 3))
    lines: list[str] = []
    factors: set[int] = set()
    for x in range(count):
        factor = draw(st.integers(-3, 3))
        other = draw(st.sampled_from(["s0", "s1 * -2", "(s0 + s1) floordiv 3", "0"]))
        shift = draw(st.integers(-9, 9))
        expr = f"d0 * {factor} + {other} + {shift}" if factor else f"{other} + {shift}"
        used = "(%i)" if factor else "(%c0)"
        lines.append(f"%e{x} = affine.apply affine_map<(d0)[s0, s1] -> ({expr})> {used}[%a, %b]")
        factors.add(factor)
    predicate = draw(st.sampled_from(["slt", "sle", "sgt", "sge"]))
    form = draw(st.sampled_from(["minsi", "maxsi", "andi", "ori"]))
    if form in ("andi", "ori"):
        lines += [f"%p{x} = arith.cmpi {predicate}, %e{x}, %a : index" for x in range(count)]
        joined, kind, last = "%p0", "i1", "p"
    else:
        joined, kind, last = "%e0", "index", "m"
    for x in range(1, count):
        name = f"%{last}" if x == count - 1 else f"%t{x}"
        part = f"%p{x}" if kind == "i1" else f"%e{x}"
        lines.append(f"{name} = arith.{form} {joined}, {part} : {kind}")
        joined = name
    if kind == "index":
        sides = draw(st.permutations([joined, "%a"]))
        lines.append(f"%p = arith.cmpi {predicate}, {', '.join(sides)} : index")
    elif count == 1:
        lines.append("%p = arith.ori %p0, %p0 : i1")
    return "\n".join(lines), factors


@settings(max_examples=examples(150), deadline=None)
@given(conditions(), st.integers(-6, 12), st.integers(-6, 12), st.integers(0, 14))
def test_the_loops_do_what_the_one_did(
    condition: tuple[str, set[int]], a: int, b: int, n: int
) -> None:
    text, factors = condition
    sizes = {"a": a, "b": b, "n": n}
    before = loop(text)
    after = run(before, PASS)
    assert bool(find(after, scf.IfOp)) == (factors == {0})
    assert trace(after, sizes) == trace(run(before), sizes)


SOME: dict[str, tuple[str, list[str]]] = {
    "from a step on": ("%p = arith.cmpi sge, %i, %a : index", ["whole", "cut"]),
    "up to a step": ("%p = arith.cmpi slt, %i, %a : index", ["cut", "whole"]),
    "a stretch": (
        "%x = arith.cmpi sge, %i, %a : index\n%y = arith.cmpi slt, %i, %b : index\n"
        "%p = arith.andi %x, %y : i1",
        ["whole", "cut", "whole"],
    ),
    "the two ends": (
        "%x = arith.subi %i, %a : index\n%y = arith.subi %b, %i : index\n"
        "%z = arith.minsi %x, %y : index\n%p = arith.cmpi slt, %z, %c0 : index",
        ["cut", "whole", "cut"],
    ),
    "the greater of two": (
        "%x = arith.addi %i, %a : index\n%z = arith.maxsi %i, %x : index\n"
        "%p = arith.cmpi sgt, %b, %z : index",
        ["cut", "whole"],
    ),
    "one that is of no step too": (
        "%x = arith.subi %b, %a : index\n%y = arith.subi %b, %i : index\n"
        "%z = arith.minsi %x, %y : index\n%p = arith.cmpi slt, %z, %c0 : index",
        ["cut", "whole", "cut"],
    ),
}


@pytest.mark.parametrize(("condition", "wanted"), SOME.values(), ids=SOME)
def test_only_as_many_loops_as_the_signs_call_for(condition: str, wanted: list[str]) -> None:
    """And nothing is left of the condition in them."""
    module = run(loop(condition), PASS)
    loops = find(module, scf.ForOp)
    sides = [[str(f.fragment.name_hint) for f in find(one, tile.FillOp)] for one in loops]
    assert [side[1:] for side in sides] == [[name] for name in wanted]
    assert not any(find(one, arith.CmpiOp) for one in loops)
    for a, b in product(range(-2, 7), repeat=2):
        sizes = {"a": a, "b": b, "n": 5}
        assert trace(module, sizes) == trace(run(loop(condition)), sizes)


TWO = (
    "%p = arith.cmpi slt, %i, %a : index\n%q = arith.cmpi sge, %i, %b : index",
    f"{GUARD}\nscf.if %q {{ {fill('more')} }}",
)


@pytest.mark.parametrize("a", range(0, 9, 2))
@pytest.mark.parametrize("b", range(0, 9, 3))
def test_two_branches_are_cut_away(a: int, b: int) -> None:
    sizes = {"a": a, "b": b, "n": 7}
    module = run(loop(*TWO), PASS)
    assert not find(module, scf.IfOp) and len(find(module, scf.ForOp)) == 4
    assert trace(module, sizes) == trace(run(loop(*TWO)), sizes)


@pytest.mark.parametrize("a", range(-1, 9))
def test_what_a_step_hands_to_the_next_goes_from_loop_to_loop(a: int) -> None:
    """The steps' sum is the number of turns of a loop behind."""
    text = around(
        f"""%sum = scf.for %i = %c1 to %n step %c1 iter_args(%s = %c0) -> (index) {{
          %p = arith.cmpi slt, %i, %a : index
          {GUARD}
          %t = arith.addi %s, %i : index
          scf.yield %t : index
        }}
        scf.for %j = %c0 to %sum step %c1 {{ {fill("after")} }}"""
    )
    sizes = {"a": a, "b": 0, "n": 6}
    module = run(text, PASS)
    assert not find(module, scf.IfOp)
    found = trace(module, sizes)
    assert found == trace(run(text), sizes) and found[-1] == ("after", 14)


STAYS: dict[str, str] = {
    "steps of 2": loop("%p = arith.cmpi slt, %i, %a : index", step="%c2"),
    "steps of any size": loop("%p = arith.cmpi slt, %i, %a : index", step="%b"),
    "every other step": loop(
        "%e = affine.apply affine_map<(d0) -> (d0 mod 2)> (%i)\n"
        "%p = arith.cmpi slt, %e, %c1 : index"
    ),
    "one step": loop("%p = arith.cmpi eq, %i, %a : index"),
    "unsigned": loop("%p = arith.cmpi ult, %i, %a : index"),
    "the step by a size": loop(
        "%e = arith.muli %i, %b : index\n%p = arith.cmpi slt, %e, %a : index"
    ),
    "no step": loop("%p = arith.cmpi slt, %a, %b : index"),
    "the least of one and the greatest of others": loop(
        "%e = arith.maxsi %i, %b : index\n%f = arith.minsi %e, %a : index\n"
        "%p = arith.cmpi slt, %f, %n : index"
    ),
    "one of two or both of others": loop(
        "%x = arith.cmpi slt, %i, %a : index\n%y = arith.cmpi sgt, %i, %b : index\n"
        "%z = arith.andi %x, %y : i1\n%w = arith.cmpi sgt, %i, %n : index\n"
        "%p = arith.ori %z, %w : i1"
    ),
    "a value": loop(
        "%p = arith.cmpi slt, %i, %a : index",
        "%v = scf.if %p -> (index) { scf.yield %i : index } else { scf.yield %a : index }",
    ),
    "a barrier": loop("%p = arith.cmpi slt, %i, %a : index", "scf.if %p { gpu.barrier }"),
    "a release beside": loop(
        "%p = arith.cmpi slt, %i, %a : index",
        f"scf.if %p {{ {fill('cut')} gpu.ring_release %ring[%i] : !gpu.ring<2> }}",
    ),
    "three branches": loop(
        f"{TWO[0]}\n%r = arith.cmpi sgt, %i, %c2 : index",
        f"{TWO[1]}\nscf.if %r {{ {fill('after')} }}",
    ),
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_what_stays_one_loop(text: str) -> None:
    unchanged(text, PASS)


def test_it_runs_once() -> None:
    once = run(loop(*TWO), PASS)
    text = printed(once)
    assert printed(run(once, PASS)) == text
