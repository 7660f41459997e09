"""A model's tensors become parameters, each once, under names that a file may have."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32

from polyc.dialects.frontend import ConstantOp, tensor
from polyc.importers.parameters import free_name, kept, read, symbol_name
from polyc.trace.builder import Builder


def test_a_tensor_is_one_parameter_and_a_number_a_constant():
    builder = Builder("f", {"x": tensor([2, 3], f32)})
    w, other = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    one, again, two = (read(builder, a, "w") for a in (w, w, other))
    assert one.ssa is again.ssa is not two.ssa
    assert builder.entries == ("w", "w_1")
    number = read(builder, np.asarray(3, np.int64), "n")
    assert isinstance(number.ssa.owner, ConstantOp) and number.dtype == "i64"
    assert read(builder, np.asarray(True), "c").dtype == "i1"
    module = builder.finish([builder.elementwise("add", builder.inputs[0], one.ssa)])
    assert dict(kept(module, builder)) == {"w": w}


def test_names():
    assert free_name("a/b.c", ()) == "a/b.c"
    assert free_name("w", ("w", "w_1")) == "w_2"
    assert free_name("__metadata__", ()) == "metadata"
    assert free_name("a\nb", ()) == "a_b"
    assert symbol_name("encoder.x:0", ()) == "encoder_x_0"
    assert symbol_name("0", ("_0",)) == "_0_1"
