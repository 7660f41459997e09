"""Which values of a frontend graph may be rounded to their own type (S0.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import GraphOp
from polyc.dialects.frontend.storable import keeps, rounds, storable
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch


def names(module: ModuleOp) -> dict[str, Attribute]:
    """The values that may be stored, by the hints that the programs here give."""
    found = storable(only(module, GraphOp))
    return {value.name_hint or "?": kind for value, kind in found.items()}


def named(name: str, value: SSAValue) -> SSAValue:
    value.name_hint = name
    return value


def one_kernel(s: Sketch) -> SSAValue:
    """What follows a product alone: the output rounds, and nothing else does."""
    h = named("product", s.linear(s.input("x", "T", 64), "w", 88, bias=True))
    return named("relu", s.fn("relu", s.fn("mul", h, s.input("scale", 88))))


def twice(s: Sketch) -> SSAValue:
    h = named("h", s.linear(s.input("x", "T", 64), "w", 64))
    return s.fn("add", s.fn("tanh", h), s.fn("neg", h))


def two_places(s: Sketch) -> SSAValue:
    """One op, which reads it where it is and moved."""
    h = named("h", s.linear(s.input("x", 64, 64), "w", 64))
    return s.fn("add", h, s.permute(h, 1, 0))


def turned_by(s: Sketch) -> SSAValue:
    """No reduction is behind it: it is read where it is and moved, as by a rotation."""
    h = named("h", s.fn("gelu", s.input("x", 64, 64)))
    return s.fn("add", h, named("o", s.permute(h, 1, 0)))


def moved_once(s: Sketch) -> SSAValue:
    """The same, read moved alone."""
    h = named("h", s.fn("gelu", s.input("x", 64, 64)))
    return s.fn("neg", s.permute(h, 1, 0))


def squared(s: Sketch) -> SSAValue:
    h = named("h", s.linear(s.input("x", "T", 64), "w", 64))
    return s.fn("mul", h, h)


def mean(s: Sketch) -> SSAValue:
    h = named("h", s.fn("relu", s.linear(s.input("x", "T", 64), "w", 64)))
    return s.reduce("mean", s.permute(h, 1, 0), 1)


def wide_scores(s: Sketch) -> SSAValue:
    """A cast to f32 keeps the elements as they are."""
    h = named("h", s.linear(s.input("x", "T", 64), "w", 64))
    return s.softmax(s.cast(h, f32))


def next_product(s: Sketch) -> SSAValue:
    """The product rounds it: where it is stored makes no difference."""
    h = named("h", s.fn("gelu", s.linear(s.input("x", "T", 64), "w", 64)))
    return s.linear(h, "v", 64)


def two_products(s: Sketch) -> SSAValue:
    x = s.input("x", "T", 64)
    a, b = named("a", s.linear(x, "a", 64)), named("b", s.linear(x, "b", 64))
    return s.fn("add", a, b)


def two_rows(s: Sketch) -> SSAValue:
    """Reductions of rows that are joined, and no product."""
    x = s.input("x", "T", 64)
    return s.fn("mul", named("a", s.softmax(x)), named("b", s.reduce("max", x, 1, keep=True)))


def gate(s: Sketch) -> SSAValue:
    """A product that is repeated along rows."""
    g = named("g", s.linear(s.input("x", 1, 64), "w", 64))
    return s.fn("mul", s.input("z", "T", 64), g)


def moved(s: Sketch) -> SSAValue:
    """A product's kernel may end before a movement."""
    h = named("h", s.linear(s.input("x", "T", 64), "w", 64))
    return s.fn("relu", s.permute(h, 1, 0))


def in_groups(s: Sketch) -> SSAValue:
    """The groups' channels lie side by side only where they have been moved."""
    x, w = s.input("x", "N", 8, 8, 64), s.input("w", 64, 3, 3, 32)
    op = frontend.Conv2dOp(x, w, layout="nhwc", groups=Dim.const(2))
    return s.fn("relu", named("h", s.add(op)))


def inputs_alone(s: Sketch) -> SSAValue:
    x = named("x", s.fn("exp", s.input("x", "T", 64)))
    return s.fn("add", s.fn("tanh", x), s.fn("neg", x))


def cast_by_hand(s: Sketch) -> SSAValue:
    h = s.gemm(s.input("x", "T", 64), s.input("w", 64, 64), element=f32)
    h = named("h", s.cast(h, s.element))
    return s.fn("add", s.fn("tanh", h), s.fn("neg", h))


def of_f32(s: Sketch) -> SSAValue:
    h = named("h", s.gemm(s.input("x", "T", 64), s.input("w", 64, 64), element=f32))
    return s.reduce("mean", h, 1)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (one_kernel, {"relu"}),
        (twice, {"h"}),
        (two_places, {"h"}),
        (turned_by, {"h"}),
        (moved_once, set[str]()),
        (squared, set[str]()),
        (mean, {"h"}),
        (wide_scores, {"h"}),
        (next_product, {"h"}),
        (two_products, {"a", "b"}),
        (two_rows, set[str]()),
        (gate, {"g"}),
        (moved, {"h"}),
        (in_groups, {"h"}),
        (inputs_alone, set[str]()),
        (cast_by_hand, set[str]()),
        (of_f32, set[str]()),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
@pytest.mark.parametrize("element", [f16, bf16])
def test_what_may_be_stored(
    make: Callable[[Sketch], SSAValue], wanted: set[str], element: Attribute
) -> None:
    s = Sketch("f", element)
    found = names(s.done(y=make(s)))
    # The output is one that all readers round, where it has a reduction behind it.
    assert {name for name in found if name != "?"} == wanted
    assert set(found.values()) <= {element}


def test_nothing_is_narrower_than_f32() -> None:
    s = Sketch("f", f32)
    assert storable(only(s.done(y=mean(s)), GraphOp)) == {}


def test_who_rounds() -> None:
    s = Sketch("f")
    x = s.input("x", "T", 64)
    gemm = s.gemm(x, s.input("w", 64, 64)).owner
    wide, narrow = s.cast(x, f32).owner, s.cast(x, bf16).owner
    assert isinstance(gemm, frontend.GemmOp)
    assert rounds(gemm, 0, f16) and rounds(gemm, 1, f16) and not rounds(gemm, 0, bf16)
    assert isinstance(wide, frontend.CastOp) and isinstance(narrow, frontend.CastOp)
    assert keeps(wide) and not rounds(wide, 0, f16)
    assert rounds(narrow, 0, bf16) and not rounds(narrow, 0, f16) and not keeps(narrow)
    moved, tanh = s.permute(x, 1, 0).owner, s.fn("tanh", x).owner
    assert isinstance(moved, frontend.PermuteOp) and keeps(moved) and not rounds(moved, 0, f16)
    assert isinstance(tanh, frontend.ElementwiseOp) and not keeps(tanh)
    module = s.done(y=gemm.result)
    assert rounds(only(module, GraphOp).body.block.last_op or gemm, 0, f16)
