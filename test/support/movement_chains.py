"""Random chains of movements, with what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from xdsl.dialects.builtin import AffineSetAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.parser import Parser

from polyc.dialects import tiny
from polyc.dialects.common.dim import Assumption, Dim
from polyc.tools.registry import make_context

Array = npt.NDArray[Any]
SYMBOLS = ("M", "N")
SIZES: Mapping[str, int] = {"M": 5, "N": 3}
FACTS = (Assumption(Dim.sym("M") - 3, ">="), Assumption(Dim.sym("N") - 3, ">="))
"""What makes every slice and window of the tests legal."""


def sizes_of(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(d.evaluate(SIZES) for d in shape)


class Chain:
    """A random chain of movements with the NumPy array of every value."""

    def __init__(self, draw: st.DrawFn, whole: bool = False, more: tuple[str, ...] = ()) -> None:
        """``whole`` outputs the last value and not its sum; ``more`` are further kinds of step."""
        self.draw = draw
        shape = draw(st.lists(st.sampled_from(["M", "N", 4, 6, 1]), min_size=1, max_size=3))
        every = tiny.tensor(SYMBOLS)
        self.graph = tiny.GraphOp(
            "f", [every, tiny.tensor(shape)], [tiny.tensor(())], assumptions=FACTS
        )
        leaf = self.graph.body.block.args[1]
        self.arrays: dict[SSAValue, Array] = {}
        for arg in self.graph.body.block.args:
            extents = sizes_of(tiny.tensor_of(arg).dims)
            count = int(np.prod(extents, dtype=int))
            self.arrays[arg] = np.arange(1, count + 1, dtype=np.float64).reshape(extents)
        self.last: SSAValue = leaf
        kinds = ["slice", "pad", "window", "mask", "reshape", "expand", "permute", *more]
        for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
            if self.arrays[self.last].size <= 4000:
                getattr(self, kind)()
        if whole:
            kind = tiny.tensor_of(self.last)
            self.graph = self.retyped(kind)
        else:
            self.step(tiny.ReduceOp("sum", self.last, list(range(len(self.shape)))), None)
        self.graph.body.block.add_op(tiny.OutputOp([self.last]))

    def retyped(self, kind: tiny.TensorType) -> tiny.GraphOp:
        """The graph with ``kind`` as its output's type."""
        graph = tiny.GraphOp(
            "f", [a.type for a in self.graph.body.block.args], [kind], assumptions=FACTS
        )
        old, new = self.graph.body.block, graph.body.block
        for before, after in zip(old.args, new.args, strict=True):
            before.replace_all_uses_with(after)
            self.arrays[after] = self.arrays.pop(before)
            self.last = after if self.last is before else self.last
        for op in list(old.ops):
            op.detach()
            new.add_op(op)
        return graph

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tiny.tensor_of(self.last).dims

    def step(self, op: Any, array: Array | None) -> None:
        self.graph.body.block.add_op(op)
        before, self.last = self.last, cast(SSAValue, op.result)
        array = np.asarray(self.arrays[before].sum()) if array is None else array
        self.arrays[self.last] = array
        assert array.shape == sizes_of(self.shape)

    def slice(self) -> None:
        low: list[Dim] = []
        high: list[Dim] = []
        steps: list[int] = []
        where: list[Any] = []
        for size in self.shape:
            extent, constant = size.evaluate(SIZES), size.constant()
            room = constant if constant is not None else 3 if size in map(Dim.sym, SYMBOLS) else 0
            start = self.draw(st.integers(0, min(1, max(0, room - 1))))
            short = self.draw(st.integers(0, min(1, max(0, room - start - 1))))
            steps.append(self.draw(st.integers(1, 2)))
            low.append(Dim.const(start))
            high.append(size - short)
            where.append(np.s_[start : extent - short : steps[-1]])
        op = tiny.SliceOp(self.last, low, high, steps)
        self.step(op, self.arrays[self.last][tuple(where)])

    def pad(self) -> None:
        rank = len(self.shape)
        low = [self.draw(st.sampled_from([0, 0, 1, 2])) for _ in range(rank)]
        high = [self.draw(st.sampled_from([0, 0, 1])) for _ in range(rank)]
        number = self.draw(st.sampled_from([0.0, -1.0]))
        array = np.pad(
            self.arrays[self.last], list(zip(low, high, strict=True)), constant_values=number
        )
        self.step(tiny.PadOp(self.last, low, high, number), array)

    def window(self) -> None:
        named = [*map(Dim.sym, SYMBOLS)]
        wide = [i for i, d in enumerate(self.shape) if d in named or (d.constant() or 0) >= 3]
        if not wide or len(self.shape) > 3:
            return
        axis = self.draw(st.sampled_from(wide))
        stride = self.draw(st.integers(1, 2))
        size, dilation = self.draw(st.sampled_from([(2, 1), (3, 1), (2, 2)]))
        view = np.lib.stride_tricks.sliding_window_view(
            self.arrays[self.last], dilation * (size - 1) + 1, axis=axis
        )
        where = [slice(None)] * view.ndim
        where[axis], where[-1] = slice(None, None, stride), slice(None, None, dilation)
        op = tiny.WindowOp(self.last, [axis], [size], [stride], [dilation])
        self.step(op, view[tuple(where)])

    def mask(self) -> None:
        rank = len(self.shape)
        texts = ["d0 - 1 >= 0", "d0 == 1", "d0 - 2 >= 0, 3 - d0 >= 0", "d0 - d1 >= 0"]
        rows = self.draw(st.sampled_from(texts if rank > 1 else texts[:3]))
        dims = ", ".join(f"d{i}" for i in range(rank))
        condition = set_of(f"affine_set<({dims})[s0, s1] : ({rows})>")
        grid = cast(Any, list(np.indices(self.arrays[self.last].shape)))
        holds = np.ones(self.arrays[self.last].shape, np.bool_)
        for row in condition.constraints:
            value = np.asarray(row.lhs.eval(grid, [0, 0])) - np.asarray(row.rhs.eval(grid, [0, 0]))
            holds &= value == 0 if row.kind.value == "==" else value >= 0
        number = self.draw(st.sampled_from([-2.0, 7.0]))
        op = tiny.MaskOp(self.last, condition, number)
        self.step(op, np.where(holds, self.arrays[self.last], number))

    def reshape(self) -> None:
        """Merge two neighbouring axes of which the inner is constant, or split a constant one."""
        shape = list(self.shape)
        merges = [i for i in range(len(shape) - 1) if shape[i + 1].constant() not in (None, 0)]
        splits = [i for i, d in enumerate(shape) if d.constant() in (4, 6, 12, 24)]
        choices = [("merge", i) for i in merges] + [("split", i) for i in splits] + [("one", 0)]
        what, i = self.draw(st.sampled_from(choices))
        if what == "merge":
            shape[i : i + 2] = [shape[i] * shape[i + 1]]
        elif what == "split":
            value = shape[i].constant() or 0
            shape[i : i + 1] = [Dim.const(value // 2), Dim.const(2)]
        else:
            shape.insert(self.draw(st.integers(0, len(shape))), Dim.const(1))
        op = tiny.ReshapeOp(self.last, shape)
        self.step(op, self.arrays[self.last].reshape(sizes_of(tuple(shape))))

    def expand(self) -> None:
        if len(self.shape) > 3:
            return
        at = self.draw(st.integers(0, len(self.shape)))
        shape = list(self.shape)
        shape.insert(at, self.draw(st.sampled_from([Dim.sym("N"), Dim.const(2)])))
        places = [i for i in range(len(shape)) if i != at]
        array = np.broadcast_to(np.expand_dims(self.arrays[self.last], at), sizes_of(tuple(shape)))
        kind = tiny.tensor_of(self.last).element_type
        self.step(tiny.ExpandOp(self.last, places, tiny.tensor(shape, kind)), array)

    def permute(self) -> None:
        perm = self.draw(st.permutations(range(len(self.shape))))
        self.step(tiny.PermuteOp(self.last, perm), self.arrays[self.last].transpose(perm))

    def negate(self) -> None:
        self.step(tiny.UnaryOp("neg", self.last), -self.arrays[self.last])

    def add(self) -> None:
        """A value and what it was before the last step, where the shapes agree."""
        op = tiny.BinaryOp("add", self.last, self.last)
        self.step(op, self.arrays[self.last] * 2)

    def sum(self) -> None:
        if len(self.shape) < 2:
            return
        axis = self.draw(st.integers(0, len(self.shape) - 1))
        op = tiny.ReduceOp("sum", self.last, [axis])
        self.step(op, self.arrays[self.last].sum(axis=axis))


def set_of(text: str) -> AffineSet:
    found = Parser(make_context(), text).parse_attribute()
    assert isinstance(found, AffineSetAttr)
    return found.data
