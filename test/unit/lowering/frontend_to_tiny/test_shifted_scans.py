"""A scan behind neutral numbers: what becomes one scan, what stays, and that numbers stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import neutral
from polyc.dialects.common.scans import SCANS
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.frontend_to_tiny.shifted_scans import ShiftScan
from polyc.playback.frontend import run
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context


def graph(
    fn: str = "sum",
    *,
    kind: Attribute = f32,
    count: Size = 1,
    cut: int = 1,
    reverse: bool = False,
    padded: bool = False,
    number: float | None = None,
    behind: bool | None = None,
    exclusive: bool = False,
    beside: bool = False,
) -> ModuleOp:
    """Numbers in front of the scan of all but ``cut`` of x [M, N] along N."""
    s = Sketch("f", kind)
    x = s.input("x", "M", "N")
    number = neutral(fn, kind) if number is None else number
    behind = reverse if behind is None else behind
    part: SSAValue = x
    if cut:
        part = s.cut(x, 1, cut, "N") if reverse else s.cut(x, 1, 0, Dim.sym("N") - cut)
    scan = s.add(frontend.ScanOp(fn, part, 1, reverse=reverse, exclusive=exclusive))
    if padded:
        none, room = Dim.const(0), dim(count)
        low, high = (none, room) if behind else (room, none)
        whole = s.add(frontend.PadOp(scan, [none, low], [none, high], number))
    else:
        constant = s.add(frontend.ConstantOp(number, frontend.tensor((), kind)))
        block = s.add(frontend.ExpandOp(constant, [], frontend.tensor(("M", count), kind)))
        whole = s.concat(1, *((scan, block) if behind else (block, scan)))
    return s.done(y=whole, z=scan) if beside else s.done(y=whole)


def shifted(module: ModuleOp) -> frontend.ScanOp | None:
    """The scan that the output is, where that is one."""
    rewrite(module, [ShiftScan()], recursive=True)
    verify(module)
    made = only(module, frontend.OutputOp).args[0].owner
    return made if isinstance(made, frontend.ScanOp) else None


@settings(max_examples=examples(40))
@given(
    fn=st.sampled_from(SCANS),
    kind=st.sampled_from((f32, i32)),
    count=st.integers(1, 3),
    cut=st.integers(0, 2),
    ways=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**31),
)
def test_values_stay(
    fn: str, kind: Attribute, count: int, cut: int, ways: tuple[bool, bool], seed: int
) -> None:
    made = [
        graph(fn, kind=kind, count=count, cut=cut, reverse=ways[0], padded=ways[1])
        for _ in range(2)
    ]
    scan = shifted(made[1])
    assert scan is not None and scan.is_reverse == ways[0]
    assert scan.is_exclusive == (count == cut == 1)
    dice = np.random.default_rng(seed)
    x = dice.integers(-3, 4, (3, 7)).astype(np.float32 if kind == f32 else np.int32)
    right, found = (run(only(one, frontend.GraphOp), [x], {"M": 3, "N": 7})[0] for one in made)
    assert np.array_equal(found, right)


@pytest.mark.parametrize(
    "module",
    [
        graph(number=1.0),
        graph(number=-0.0),
        graph("max", number=0.0),
        graph(behind=True),
        graph(exclusive=True),
        graph(beside=True),
    ],
    ids=["ones", "zeros below 0", "zeros of a maximum", "behind it", "exclusive", "read besides"],
)
def test_others_stay(module: ModuleOp) -> None:
    assert shifted(module) is None


def test_the_pass_shifts() -> None:
    module = graph()
    FrontendToTiny().apply(make_context(), module)
    assert only(module, tiny.ScanOp).is_exclusive and not find(module, tiny.PadOp)
