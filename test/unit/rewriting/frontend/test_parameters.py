"""Parameters of a graph as inputs: one an entry, named apart, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.frontend import ElementwiseOp, GraphOp, OutputOp, ParameterOp, tensor
from polyc.passes.pipeline import build
from polyc.playback import frontend as playback
from polyc.playback import tiny as tiny_playback
from polyc.rewriting.driver import verify
from polyc.rewriting.frontend.parameters import (
    has_parameters,
    lift_parameters,
    lifted,
)
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.printing import module_text

KIND = tensor((4,), f32)


def graph(entries: list[str], arg: str = "x", out: str = "C") -> GraphOp:
    made = GraphOp("f", [KIND], [KIND], arg_names=[arg], res_names=[out])
    block = made.body.block
    value = block.args[0]
    for entry in entries:
        op = ParameterOp(entry, KIND)
        total = ElementwiseOp("sub", (value, op.result))
        block.add_ops([op, total])
        value = total.result
    block.add_op(OutputOp([value]))
    return made


ENTRIES = st.lists(
    st.text(min_size=1, max_size=4) | st.sampled_from(["x", "C", "a", "a_2", "a."]), min_size=1
)


@given(ENTRIES, st.sampled_from(["x", "a", "a_2"]))
def test_an_input_an_entry_in_their_order(entries: list[str], arg: str) -> None:
    before = graph(entries, arg)
    module = ModuleOp([before.clone()])
    lift_parameters(module)
    verify(module)
    (after,) = module.ops
    assert isinstance(after, GraphOp) and not has_parameters(after)
    order = list(dict.fromkeys(entries))
    assert [spec.entry for spec in after.inputs] == [None, *order]
    assert {spec.storage for spec in after.inputs[1:]} == {"const_pool"}
    assert after.inputs[0].name == arg and after.outputs[0].name == "C"
    arrays = [np.arange(4, dtype=np.float32) * (7 * i + 1) for i in range(len(order) + 1)]
    (found,) = playback.run(after, arrays, {})
    (wanted,) = playback.run(before, arrays, {})
    expected = arrays[0]
    for entry in entries:
        expected = expected - arrays[1 + order.index(entry)]
    assert (found == expected).all() and (wanted == expected).all()


def test_the_text_is_read_again(ctx: Context) -> None:
    """Names that end in numbers keep them, and no value takes the name of an input."""
    module = ModuleOp([graph(["w", "w.1", "w_1", "0", "é", "if", "float"])])
    lift_parameters(module)
    text = module_text(module)
    again = parse_text(ctx, text, "again.mlir")
    verify(again)
    assert module_text(again) == text
    run_pass(ctx, build("frontend-to-tiny", "sm_80"), again)
    (tiny,) = again.ops
    inputs = [np.full(4, i, np.float32) for i in range(8)]
    (found,) = tiny_playback.run(tiny, inputs, {})  # type: ignore[arg-type]
    assert found.tolist() == [-28.0] * 4


def test_what_has_no_parameters_is_itself() -> None:
    one = graph([])
    assert lifted(one) is one
    module = ModuleOp([one])
    text = module_text(module)
    lift_parameters(module)
    assert module_text(module) == text and next(iter(module.ops)) is one


def test_lifted_leaves_the_graph_as_it_is() -> None:
    one = graph(["w"])
    made = lifted(one)
    assert made is not one and made.parent is None
    assert has_parameters(one) and len(made.inputs) == 2


def test_an_op_with_a_symbol_is_refused() -> None:
    op = ParameterOp("w", tensor(("M",), f32))
    with pytest.raises(VerifyException, match="sizes that are numbers"):
        op.verify()
