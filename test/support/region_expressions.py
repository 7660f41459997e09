"""Random kernels of the region dialect, and how two runs of one are compared.

Every value but those of a function like exp is a small integer, so that sums and products in
f32 are exact in any order: a rewrite that is right up to rounding then gives the same bits,
infinities and NaN included.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.printer import Printer

from polyc.dialects import region
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.playback import functions
from polyc.playback.region import run

Array = NDArray[Any]

AXES: Mapping[str, AxisAttr] = {a: AxisAttr.of(a, a.upper()) for a in ("m", "j", "k")}
SYMBOLS = ("M", "J", "K")
SPECIAL = (float("inf"), float("-inf"), float("nan"))
WHOLE = ("neg", "abs")
"""Functions that give integers of integers."""
BOUNDED = ("tanh", "sigmoid", "erf")
ANYWHERE = ("exp", "log", "sqrt", "reciprocal", *BOUNDED)
LARGEST = 2.0**21
"""Integers up to here, and sums of a few, are exact in f32."""

IDIOMS = (
    ("unary", "reduce"),
    ("scaled", "reduce"),
    ("scaled", "reduce", "reduce"),
    ("constant", "scaled", "reduce"),
    ("cast", "reduce"),
    ("reduce", "reduce"),
    ("reduce", "scaled", "reduce"),
    ("repeat", "unary"),
    ("repeat", "binary", "reduce"),
    ("total", "turn", "binary"),
    ("total", "weighted", "again"),
    ("turn", "repeat", "repeat", "unary"),
    ("select", "reduce"),
    ("turn", "turn", "cast"),
    ("constant", "binary"),
    ("turn", "repeat", "unary"),
)
"""Steps one after another, most of which some rule is about."""


class Program:
    """A random kernel in a module, and an input for it."""

    def __init__(self, module: ModuleOp, inputs: Sequence[Array], sizes: Mapping[str, int]) -> None:
        self.module, self.inputs, self.sizes = module, inputs, sizes
        self._text = text(module)

    def __repr__(self) -> str:
        return f"{self._text}\n{self.sizes} {self.inputs}"

    def play(self, module: ModuleOp | None = None, chunk: int | None = None) -> list[Array]:
        """The outputs of the kernel, or of its form in ``module``."""
        return play(self.module if module is None else module, self.inputs, self.sizes, chunk)


def play(
    module: ModuleOp, inputs: Sequence[Array], sizes: Mapping[str, int], chunk: int | None = None
) -> list[Array]:
    """The outputs of the first kernel of ``module``."""
    kernel = module.body.block.first_op
    assert isinstance(kernel, region.KernelOp)
    return run(kernel, inputs, sizes)


def text(module: ModuleOp) -> str:
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def of_type(module: ModuleOp, kind: type[Operation]) -> list[Operation]:
    """The ops of a class, in the order of the text."""
    return [op for op in module.walk() if isinstance(op, kind)]


@contextmanager
def shaken() -> Generator[None]:
    """Functions that are only near the true value: up to 2 ulp off, differently at each value.

    ``docs/semantics.md`` promises no more, so a claim of the class ``exact`` may not rest on it.
    """

    def off(fn: functions.UnaryFunction) -> functions.UnaryFunction:
        def near(x: Array) -> Array:
            exact = np.asarray(fn(x), np.float32)
            noise = (np.asarray(x, np.float32).view(np.uint32) * np.uint32(2654435761)) >> 30
            moved = exact * (1 + (noise.astype(np.float32) - 1) * np.float32(2**-23))
            return np.where(np.isfinite(exact) & (exact != 0), moved, exact)

        return near

    kept = dict(functions.UNARY)
    try:
        for name in ("exp", "log", *BOUNDED):
            functions.UNARY[name] = off(kept[name])
        yield
    finally:
        functions.UNARY.update(kept)


def agree(change: str, before: Sequence[Array], after: Sequence[Array]) -> None:
    """Hold two runs to the claim of a class of change."""
    for x, y in zip(before, after, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        a, b = x.astype(np.float32), y.astype(np.float32)
        if change == "exact":
            assert np.array_equal(a, b, equal_nan=True), (x, y)
            continue
        if change == "finite-only":
            finite = np.isfinite(a) & np.isfinite(b)
            a, b = a[finite], b[finite]
        assert np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True), (x, y)


@dataclass
class Made:
    """A value: the largest it can be if it is finite, and whether it is an integer."""

    value: SSAValue
    bound: float
    whole: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        return val_type(self.value).labels


class Expression:
    """A kernel that grows step by step, as ``draw`` says."""

    def __init__(self, draw: st.DrawFn, finite: bool) -> None:
        self.draw, self.finite = draw, finite
        nonempty = finite or draw(st.booleans())
        sizes = st.integers(1 if nonempty else 0, 4)
        self.sizes = {s: draw(sizes) for s in SYMBOLS}
        self.facts = [Assumption(Dim.sym(s) - 1, ">=") for s in SYMBOLS] if nonempty else []
        shapes = (("m", "k"), ("m", "j", "k"), ("m",), ("k", "m"), ("m", "k"))
        types = (f32, f32, f32, f32, f16)
        self.ins = [
            MemRefType.of([a.upper() for a in shape], kind)
            for shape, kind in zip(shapes, types, strict=True)
        ]
        self.block = Block(arg_types=self.ins)
        self.made: list[Made] = []
        for arg, shape in zip(self.block.args, shapes, strict=True):
            dims = tuple(AffineDimExpr(i) for i in range(len(shape)))
            axes = [AXES[a] for a in shape]
            self.add(region.ReadOp(arg, AffineMap(len(shape), len(SYMBOLS), dims), axes), 8)
        for _ in range(draw(st.integers(1, 4))):
            for step in draw(st.sampled_from(IDIOMS)):
                getattr(self, step)()

    def add(self, op: Operation, bound: float, whole: bool = True) -> Made:
        self.block.add_op(op)
        self.made.append(Made(op.results[0], bound, whole))
        return self.made[-1]

    def among(self, found: Sequence[Made]) -> Made | None:
        """One of ``found``, the last of them rather."""
        latest = [found[-1]] * (4 * len(found)) if found else []
        return self.draw(st.sampled_from([*latest, *found])) if found else None

    def f32s(self) -> list[Made]:
        return [m for m in self.made if val_type(m.value).element_type == f32]

    def spread(self, value: SSAValue, labels: Sequence[str]) -> SSAValue:
        have = val_type(value).labels
        if have == tuple(labels):
            return value
        places = [list(labels).index(h) for h in have]
        op: Operation = region.BroadcastInDimOp(value, places, [AXES[a] for a in labels])
        if len(have) == len(labels):
            op = region.TransposeOp(value, [have.index(a) for a in labels])
        self.block.add_op(op)
        return op.results[0]

    def together(self, *values: SSAValue) -> list[SSAValue]:
        """Values over the axes of all of them, in the order of the first."""
        labels = list(dict.fromkeys(a for v in values for a in val_type(v).labels))
        return [self.spread(v, labels) for v in values]

    # Steps

    def unary(self) -> None:
        x = self.among(self.f32s())
        assert x is not None
        fns = [*WHOLE, *BOUNDED, *(["exp"] if x.bound <= 16 else [])]
        fn = self.draw(st.sampled_from(fns if self.finite else [*WHOLE, *ANYWHERE]))
        whole = x.whole and fn in WHOLE
        bound = x.bound if fn in WHOLE else 1.0 if fn in BOUNDED else 2.0**40
        self.add(region.UnaryOp(fn, x.value), bound, whole)

    def constant(self) -> None:
        numbers = [2.0, -3.0, 0.0, 1.0, -1.0] + ([] if self.finite else [*SPECIAL])
        self.add(region.ConstantOp(self.draw(st.sampled_from(numbers)), f32), 3)

    def scaled(self) -> None:
        """A function of a value and of one that lacks some of its axes."""
        x = self.among([m for m in self.f32s() if m.labels])
        assert x is not None
        fewer = [m for m in self.f32s() if set(m.labels) < set(x.labels)]
        self.join(x, self.draw(st.sampled_from(fewer)) if fewer else None)

    def weighted(self) -> None:
        """Two factors, in the latest value and in one that lacks some of its axes."""
        x = self.made[-1]
        self.join(x, self.among([m for m in self.f32s() if set(m.labels) < set(x.labels)]), "mul")

    def binary(self) -> None:
        x = self.among(self.f32s())
        assert x is not None
        self.join(x, self.among(self.f32s()))

    def join(self, x: Made, y: Made | None, fn: str | None = None) -> None:
        if y is None:
            return
        fn = fn or self.draw(st.sampled_from(["add", "sub", "max", "min", "mul"]))
        bound = x.bound * y.bound if fn == "mul" else x.bound + y.bound
        if bound >= LARGEST and not (fn in ("max", "min") and bound < 2.0**60):
            return
        operands = self.together(x.value, y.value)
        if self.draw(st.booleans()):
            operands.reverse()
        self.add(region.BinaryOp(fn, *operands), bound, x.whole and y.whole)

    def select(self) -> None:
        x, y, z = (self.among([m for m in self.f32s() if m.whole]) for _ in range(3))
        assert x is not None and y is not None and z is not None
        a, b, c, d = self.together(x.value, y.value, z.value, x.value)
        fn = self.draw(st.sampled_from(["lt", "ge", "eq"]))
        condition = region.CompareOp(fn, a, b)
        self.block.add_op(condition)
        bound = max(x.bound, z.bound)
        self.add(region.SelectOp(condition.result, c, d), bound)

    def cast(self) -> None:
        found = self.among([m for m in self.made if m.bound <= 64 and m.labels])
        if found is not None:
            kind = f32 if val_type(found.value).element_type == f16 else f16
            self.add(region.CastOp(found.value, kind), found.bound, found.whole)

    def reduce(self) -> None:
        x = self.among([m for m in self.made if m.labels])
        assert x is not None
        labels = [a for a in x.labels if self.draw(st.booleans())] or [x.labels[-1]]
        sums = ["sum", "sum"] if self.can_sum(x, labels) else []
        self.reduced(x, self.draw(st.sampled_from(["max", "min", *sums])), labels)

    def total(self) -> None:
        """A sum over one axis that leaves two."""
        found = next(m for m in self.made if len(m.labels) == 3)
        self.reduced(found, "sum", [self.draw(st.sampled_from(found.labels))])

    def again(self) -> None:
        """A sum over one axis of the latest value."""
        found = self.made[-1]
        if found.labels and self.can_sum(found, found.labels):
            self.reduced(found, "sum", [self.draw(st.sampled_from(found.labels))])

    def points(self, labels: Sequence[str]) -> int:
        return max(int(np.prod([self.sizes[a.upper()] for a in labels])), 1)

    def can_sum(self, x: Made, labels: Sequence[str]) -> bool:
        return x.whole and x.bound * self.points(labels) < LARGEST

    def reduced(self, x: Made, fn: str, labels: Sequence[str]) -> None:
        bound = x.bound * (self.points(labels) if fn == "sum" else 1)
        self.add(region.ReduceOp(fn, x.value, labels, acc=f32), bound, x.whole)

    def repeat(self) -> None:
        """Two values, each repeated along an axis that it lacks, as later steps will take them."""
        labels = [a for a in AXES if self.draw(st.booleans())] or ["m"]
        for _ in range(2):
            x = self.among([m for m in self.f32s() if set(m.labels) <= set(labels)])
            if x is not None and set(x.labels) != set(labels):
                self.made.append(Made(self.spread(x.value, labels), x.bound, x.whole))

    def turn(self) -> None:
        x = self.among([m for m in self.made if len(m.labels) > 1])
        assert x is not None
        perm = self.draw(st.permutations(range(len(x.labels))))
        self.add(region.TransposeOp(x.value, perm), x.bound, x.whole)

    # The kernel

    def finish(self) -> Program:
        last = self.made[-1].value
        kind = cast(ValType, last.type)
        self.block.add_op(region.YieldOp([last]))
        kernel = region.KernelOp(
            "f",
            kind.axes,
            [region.KernelTensor(f"x{i}", t) for i, t in enumerate(self.ins)],
            [region.KernelTensor("y", MemRefType.of(kind.shape, kind.element_type))],
            body=Region(self.block),
            symbols=SYMBOLS,
            assumptions=AssumptionsAttr(tuple(self.facts)),
        )
        module = ModuleOp([kernel])
        module.verify()
        inputs = [self.array(t) for t in self.ins]
        return Program(module, inputs, self.sizes)

    def array(self, kind: MemRefType) -> Array:
        shape = [d.evaluate(self.sizes) for d in kind.shape]
        number = st.integers(-8, 8).map(float)
        elements = number if self.finite else st.one_of(number, number, st.sampled_from(SPECIAL))
        count = int(np.prod(shape))
        drawn = self.draw(st.lists(elements, min_size=count, max_size=count))
        dtype = np.float16 if kind.element_type == f16 else np.float32
        return np.array(drawn, dtype).reshape(shape)


@st.composite
def programs(draw: st.DrawFn, finite: bool = False) -> Program:
    """A random kernel with its input; with ``finite`` no value in it is infinite or NaN."""
    return Expression(draw, finite).finish()
