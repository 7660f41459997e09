"""ONNX models come in: inputs, sizes, parameters, functions, and what cannot be said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.onnx_cases import played

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")
helper: Any = onnx.helper
FLOAT, INT64 = 1, 7


def model(
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[int | str]]],
    outputs: dict[str, tuple[int, list[int | str] | None]],
    constants: dict[str, Any] | None = None,
    functions: list[Any] | None = None,
    opset: int = 21,
) -> Any:
    """A model of nodes, with inputs and outputs by their names."""
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, k, s) for n, (k, s) in inputs.items()],
        [helper.make_tensor_value_info(n, k, s) for n, (k, s) in outputs.items()],
        [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(made, opset_imports=opsets, functions=functions or [], ir_version=10)


def unary(op: str, **attributes: Any) -> Any:
    return model(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        {"x": (FLOAT, [2, 3])},
        {"y": (FLOAT, None)},
    )


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def linear() -> Any:
    return model(
        [
            helper.make_node("MatMul", ["x", "weight"], ["h"], name="product"),
            helper.make_node("Add", ["h", "bias"], ["y"], name="sum"),
        ],
        {"x": (FLOAT, ["batch", 4])},
        {"y": (FLOAT, ["batch", 3])},
        {"weight": numbers(4, 3), "bias": numbers(3)},
    )


def test_a_model_and_its_parameters_are_apart():
    found = polyc.from_onnx(linear())
    assert set(found.parameters) == {"weight", "bias"}
    assert '"weight"' in found.text and "batch" in found.text
    x = numbers(5, 4)
    (y,) = played(found, {"x": x})
    np.testing.assert_allclose(y, x @ numbers(4, 3) + numbers(3), rtol=1e-5)


def test_it_is_compiled_and_called_on_the_cpu():
    program = polyc.compile(polyc.from_onnx(linear()), device="cpu")
    x = numbers(2, 4)
    np.testing.assert_allclose(program(x), x @ numbers(4, 3) + numbers(3), rtol=1e-5)


def test_a_file_is_read_and_both_results_are_saved(tmp_path: Path):
    onnx.save(linear(), str(tmp_path / "net.onnx"))
    found = polyc.from_onnx(tmp_path / "net.onnx")
    found.save(tmp_path / "net.mlir", tmp_path / "net.safetensors")
    program = polyc.compile(
        tmp_path / "net.mlir", params=tmp_path / "net.safetensors", device="cpu"
    )
    x = numbers(2, 4)
    np.testing.assert_allclose(program(x), x @ numbers(4, 3) + numbers(3), rtol=1e-5)


def test_named_sizes_are_symbols_or_given_numbers():
    assert "batch mod 8 == 0" in polyc.from_onnx(linear(), assume="batch mod 8 == 0").text
    fixed = polyc.from_onnx(linear(), sizes={"batch": 7})
    assert "batch" not in fixed.text and "[7, 4]" in fixed.text
    with pytest.raises(PolycError, match=r"sizes names 'rows'; the named sizes of .* are batch"):
        polyc.from_onnx(linear(), sizes={"rows": 7})


def test_shape_arithmetic_with_a_symbol_is_folded():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["b"], axis=0),
        helper.make_node("Unsqueeze", ["b", "axes"], ["b1"]),
        helper.make_node("Mul", ["b1", "two"], ["b2"]),
        helper.make_node("Concat", ["b2", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    one = model(
        nodes,
        {"x": (FLOAT, ["N", 6])},
        {"y": (FLOAT, None)},
        {
            "zero": np.array(0),
            "axes": np.array([0]),
            "two": np.array([2]),
            "rest": np.array([3]),
        },
    )
    found = polyc.from_onnx(one)
    assert "[2 * N, 3]" in found.text
    x = numbers(4, 6)
    np.testing.assert_array_equal(played(found, {"x": x})[0], x.reshape(8, 3))


def test_a_size_is_data_where_it_is_computed_with():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=FLOAT),
    ]
    found = polyc.from_onnx(model(nodes, {"x": (FLOAT, ["N", 6])}, {"y": (FLOAT, None)}))
    (y,) = played(found, {"x": numbers(4, 6)})
    assert y.tolist() == [4.0, 6.0]


def test_all_that_is_missing_is_one_diagnostic():
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Foo", ["x"], ["b"], name="second", domain="mine"),
        helper.make_node("Foo", ["x"], ["c"], name="third", domain="mine"),
        helper.make_node("Add", ["b", "c"], ["y"], name="after"),
    ]
    one = model(nodes, {"x": (FLOAT, [2, 3])}, {"y": (FLOAT, None), "a": (INT64, None)})
    with pytest.raises(PolycError) as caught:
        polyc.from_onnx(one)
    error = caught.value
    assert error.kind == "UnsupportedModel"
    assert "has 2 ops that cannot be said: NonZero, mine::Foo" in error.message
    notes = " ".join(error.notes)
    assert "first" in notes and "second" in notes and "third" in notes and "after" not in notes


def test_a_converter_of_the_users_says_an_op():
    from polyc.importers.registry import converters

    assert "mine::Scaled" not in converters("onnx")

    @polyc.converter("onnx", "mine::Scaled")
    def scaled(node: Any) -> Any:
        return node.value(0) * float(node.attr("by", 1.0))

    assert scaled is converters("onnx")["mine::Scaled"]
    nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="mine", by=3.0)]
    found = polyc.from_onnx(model(nodes, {"x": (FLOAT, [2])}, {"y": (FLOAT, None)}))
    np.testing.assert_array_equal(played(found, {"x": np.array([1, 2], np.float32)})[0], [3, 6])


def test_a_function_of_the_models_is_its_body():
    body = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["k"]),
            helper.make_node("Mul", ["a", "k"], ["b"]),
        ],
        [helper.make_opsetid("", 21)],
        ["by"],
    )
    attribute = body.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "value_float", "by", 1
    nodes = [helper.make_node("Twice", ["x"], ["y"], domain="mine", by=2.5)]
    one = model(nodes, {"x": (FLOAT, [2])}, {"y": (FLOAT, None)}, functions=[body])
    np.testing.assert_array_equal(
        played(polyc.from_onnx(one), {"x": np.array([1, 2], np.float32)})[0], [2.5, 5]
    )


def test_an_input_that_is_known_is_no_input():
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    one = model(nodes, {"x": (FLOAT, [2, 3]), "shape": (INT64, [1])}, {"y": (FLOAT, None)})
    with pytest.raises(PolycError) as caught:
        polyc.from_onnx(one)
    assert "known={'shape': …}" in " ".join(caught.value.notes)
    found = polyc.from_onnx(one, known={"shape": [6]})
    assert list(found.inputs) == ["x"] and "[6]" in found.text
    with pytest.raises(PolycError, match=r"known gives 'shape' \[2\], and .* takes \[1\]"):
        polyc.from_onnx(one, known={"shape": [2, 3]})
    with pytest.raises(PolycError, match="numbers of float64, and it takes int64"):
        polyc.from_onnx(one, known={"shape": [5.5]})
    assert "[6]" in polyc.from_onnx(one, known={"shape": 6}).text
    with pytest.raises(PolycError, match="known names 'form'; the inputs of"):
        polyc.from_onnx(one, known={"form": [6]})


def test_declared_sizes_say_what_a_shape_holds(capsys: pytest.CaptureFixture[str]):
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    inputs: dict[str, Any] = {"x": (FLOAT, [2, "N"]), "shape": (INT64, [2])}
    found = polyc.from_onnx(model(nodes, inputs, {"y": (FLOAT, ["N", 2])}))
    assert list(found.inputs) == ["x", "shape"]
    told = capsys.readouterr().err
    assert "warning[UnreadInput]: the model has an input that nothing reads: shape" in told
    one = model(nodes, inputs, {"y": (FLOAT, ["N", 2])})
    polyc.from_onnx(one, known={"shape": [5, 2]}, sizes={"N": 5})
    assert not capsys.readouterr().err
    x = numbers(2, 5)
    (y,) = played(found, {"x": x, "shape": np.array([5, 2])})
    np.testing.assert_array_equal(y, x.reshape(5, 2))
    # A size that no input has says nothing.
    with pytest.raises(PolycError, match="Reshape"):
        polyc.from_onnx(model(nodes, inputs, {"y": (FLOAT, ["N", "M"])}))


@pytest.mark.parametrize(
    ("keepdims", "sizes", "axis"), [(1, [2, 1, 3], 1), (0, [2, 2], 2), (0, [2, 3], None)]
)
def test_declared_sizes_say_axes_where_they_leave_one_choice(
    keepdims: int, sizes: list[int | str], axis: int | None
):
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=keepdims)]
    dims: list[int | str] = [2, 2, 3]
    inputs: dict[str, Any] = {"x": (FLOAT, dims), "axes": (INT64, [1])}
    one = model(nodes, inputs, {"y": (FLOAT, sizes)})
    if axis is None:
        with pytest.raises(PolycError, match="ReduceSum"):
            polyc.from_onnx(one)
        return
    x = numbers(2, 2, 3)
    (y,) = played(polyc.from_onnx(one), {"x": x, "axes": np.array([axis])})
    np.testing.assert_allclose(y, x.sum(axis, keepdims=bool(keepdims)), rtol=1e-6)


def test_a_branch_by_data_computes_both():
    def branch(op: str) -> Any:
        return helper.make_graph(
            [helper.make_node(op, ["x"], ["r"])],
            op,
            [],
            [helper.make_tensor_value_info("r", FLOAT, [2])],
        )

    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    ]
    found = polyc.from_onnx(model(nodes, {"x": (FLOAT, [2]), "c": (9, [])}, {"y": (FLOAT, [2])}))
    x = np.array([1, -2], np.float32)
    assert played(found, {"x": x, "c": np.array(True)})[0].tolist() == [-1, 2]
    assert played(found, {"x": x, "c": np.array(False)})[0].tolist() == [1, 2]


def test_f64_is_refused_or_computed_in_f32():
    one = model([helper.make_node("Exp", ["x"], ["y"])], {"x": (11, [2])}, {"y": (11, [2])})
    with pytest.raises(PolycError, match="UnsupportedModel") as caught:
        polyc.from_onnx(one)
    assert "emulate=True computes it in f32" in caught.value.format()
    (y,) = played(polyc.from_onnx(one, emulate=True), {"x": np.array([0.0, 1.0])})
    assert y.dtype == np.float32 and y[0] == 1.0


def test_softmax_of_an_old_operator_set_is_brought_to_a_new_one():
    one = model(
        [helper.make_node("Softmax", ["x"], ["y"], axis=1)],
        {"x": (FLOAT, [2, 3, 4])},
        {"y": (FLOAT, [2, 3, 4])},
        opset=11,
    )
    one.ir_version = 6
    x = numbers(2, 3, 4)
    powers = np.exp(x.reshape(2, 12))
    right = (powers / powers.sum(1, keepdims=True)).reshape(2, 3, 4)
    np.testing.assert_allclose(played(polyc.from_onnx(one), {"x": x})[0], right, rtol=1e-5)


def test_outputs_that_are_not_as_declared():
    one = model(
        [helper.make_node("Foo", ["x"], ["y"], domain="mine")],
        {"x": (FLOAT, [2, 3])},
        {"y": (FLOAT, [3, 2])},
    )

    @polyc.converter("onnx", "mine::Foo")
    def foo(node: Any) -> Any:
        return node.value(0)

    with pytest.raises(PolycError, match=r"declares the output 'y' as \[3, 2\]") as caught:
        polyc.from_onnx(one)
    assert caught.value.kind == "BadModel" and foo is not None


def test_what_is_no_model():
    with pytest.raises(PolycError, match=r"takes a path or an onnx\.ModelProto, not a dict"):
        polyc.from_onnx({})


def test_the_library_is_asked_for_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(PolycError, match=r"install polyc\[onnx\]") as caught:
        polyc.from_onnx("net.onnx")
    assert caught.value.kind == "NoImporter"
