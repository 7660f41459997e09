"""What is known of how large a value may be, by what it is made of."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32, i1, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.common.elements import ui8, ui32, ui64
from polyc.dialects.region import CastOp, KernelOp, ReadOp, SelectOp
from polyc.dialects.region.magnitudes import integer_up_to, whole_up_to
from polyc.test.support.gpu_text import find, only
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

TEXT = """
region.kernel @f iters [i: 8] ins(%x: {x}, %c: {c}) outs(y: {y} gmem) {{
  %0 = region.read %x affine_map<(d0) -> (d0)> : {x} -> {kind}
  %1 = region.cast %0 : {kind} -> {to}
  %2 = region.constant {number} : {one}
  %3 = region.broadcast_in_dim %2 dims [] : {one} -> {to}
  %4 = region.read %c affine_map<(d0) -> (d0)> : {c} -> {i1}
  %5 = region.select %4, %1, %3 : {i1}, {to}, {to} -> {to}
  region.yield %5 : {to}
}}
"""


def parts(kind: Attribute, to: Attribute, number: float) -> tuple[SSAValue, SSAValue, SSAValue]:
    """What is cast, a constant for all points, and one of both, in a type."""
    elements = {"kind": kind, "to": to, "i1": i1}
    types = {n: f"!region.val<[i: 8], {element}>" for n, element in elements.items()}
    for name, element in (("x", kind), ("c", i1), ("y", to)):
        types[name] = f"!region.memref<[8], {element}, align 16, noalias>"
    text = TEXT.format(number=number, one=f"!region.val<[], {to}>", **types)
    kernel = only(parse_text(make_context(), text, "x.mlir"), KernelOp)
    (chosen,) = find(kernel, SelectOp)
    return chosen.if_true, chosen.if_false, chosen.result


@pytest.mark.parametrize(
    ("kind", "to", "cast"),
    [
        (i8, i64, 128),
        (ui8, ui64, 255),
        (i8, ui64, 128),
        (ui8, i8, None),
        (i32, i64, None),
        (ui32, ui64, None),
    ],
    ids=str,
)
def test_an_integer_is_as_large_as_what_is_cast_and_as_its_constants(
    kind: Attribute, to: Attribute, cast: int | None
) -> None:
    """What a type cuts, or leaves as large as it is, is not known to be small."""
    one, other, both = parts(kind, to, 100)
    assert (integer_up_to(one), integer_up_to(other)) == (cast, 100)
    assert integer_up_to(both) == (None if cast is None else max(cast, 100))
    read = one.owner.operand.owner if isinstance(one.owner, CastOp) else None
    assert isinstance(read, ReadOp)
    assert integer_up_to(read.result) is None


def test_a_real_number_is_whole_where_what_is_cast_or_the_constant_is() -> None:
    """And not -0, which a sum would have to keep."""
    for number, found in ((3.0, 3), (0.5, None), (-0.0, None), (-2.0, 2)):
        one, other, _ = parts(ui8, f32, number)
        assert (whole_up_to(one), whole_up_to(other)) == (255, found)
