"""Annotations of tile programs are plain data, which says what the types of the IR say."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import bf16, f16, f32

import polyc.tile as T
from polyc import PolycError
from polyc.dialects.common.size_expr import Dim
from polyc.tile import specs
from polyc.tile.tiles import attributes_of, type_of


def test_an_element_equals_its_type_and_its_name():
    for name, kind in {"f16": f16, "bf16": bf16, "f32": f32}.items():
        one = getattr(T, name)
        assert one == kind and kind == one and one == name
        assert specs.element_name(one) == specs.element_name(kind) == name
    assert T.f16 != f32 and T.f16 != 16
    assert specs.element_name("float32") == "f32"


def test_a_tensor_is_its_sizes_and_words():
    (m,) = T.sizes("M")
    spec = T.Out[m, "2 * K", 8, T.f16, T.align(16), T.attributes(role="param", n=3, on=True)]
    assert spec.output and spec.dims == (Dim.sym("M"), Dim.sym("K") * 2, Dim.const(8))
    assert str(type_of(spec)) == "!gpu.global<[M, 2 * K, 8], f16, align 16>"
    assert str(attributes_of(spec)) == '{role = "param", n = 3 : i64, on = true}'
    assert not T.Tensor["M", T.f32].output


@pytest.mark.parametrize(
    ("items", "kind"),
    [(("M +", "f16"), "InvalidText"), (("M", "f8"), "UnknownType"), ((1.5, "f16"), "NotASize")],
)
def test_what_is_refused_is_told_at_the_user_s_line(items: tuple[object, ...], kind: str):
    with pytest.raises(PolycError) as refused:
        T.Tensor[items]  # pyright: ignore
    assert refused.value.kind == kind
    assert refused.value.place is not None and refused.value.place.file == __file__
