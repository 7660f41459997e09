"""Exported programs: symbols, parameters, what is refused, and files that are none."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc import PolycError  # noqa: E402
from polyc.importers.torch import from_exported  # noqa: E402

Dim = torch.export.Dim


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 3)
        self.tied = self.linear.weight
        self.register_buffer("shift", torch.ones(3), persistent=False)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x)) + self.shift @ self.tied.sum(1) + torch.tensor([1.0])


def exported(module: Any, *args: Any, **how: Any) -> Any:
    return torch.export.export(module.eval(), args, **how)


def test_parameters_stand_apart_by_their_names():
    model = from_exported(exported(Layer(), torch.ones(2, 4)), "layer")
    assert set(model.parameters) == {"linear.weight", "linear.bias", "shift", "lifted_tensor_0"}
    assert model.graph.sym_name.data == "layer" and list(model.inputs) == ["x"]
    assert model.parameters["linear.weight"].shape == (3, 4)
    assert "relu" in model.text and "0.5" not in model.text


def test_it_is_what_pytorch_says():
    layer, x = Layer(), torch.randn(2, 4)
    found = polyc.compile(from_exported(exported(layer, x)), device="cpu")(x)
    assert torch.allclose(found, layer(x), atol=1e-6)


def test_sizes_are_symbols_by_the_names_of_dims_with_their_bounds():
    class Net(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            flat = torch.cat([x, x, x, x]).reshape(2 * x.shape[0], 2 * x.shape[1])
            places = torch.arange(x.shape[1] * 2)
            return torch.cat([x, y], 1).sum(1), flat, x.shape[0], places

    rows = Dim("rows", max=64)
    batch, rest = Dim("batch", min=2, max=64), Dim("rest", max=128)
    shapes = {"x": {0: batch, 1: rows}, "y": {0: batch, 1: rest}}
    args = torch.randn(4, 8), torch.randn(4, 5)
    model = from_exported(exported(Net(), *args, dynamic_shapes=shapes))
    facts = " ".join(str(one) for one in model.graph.facts)
    assert {"batch", "rows", "rest"} == set(model.graph.symbol_names)
    assert (
        "batch >= 2" in facts
        and "-batch >= -64" in facts
        and "-rest >= -128" in facts
        and "rest >= 1" in facts
    )
    program = polyc.compile(model, device="cpu")
    for m, k, n in ((2, 8, 3), (7, 16, 9)):
        x, y = torch.randn(m, k), torch.randn(m, n)
        found = program(x, y)
        for got, wanted in zip(found, Net()(x, y), strict=True):
            assert np.allclose(got.numpy(), torch.as_tensor(wanted).numpy(), atol=1e-5)
    with pytest.raises(PolycError) as caught:
        program(torch.randn(65, 8), torch.randn(65, 3))
    assert caught.value.kind == "AssumptionBroken"


def test_a_derived_size_is_told_by_the_call():
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.reshape(2, -1).sum(1)

    shapes = {"x": {0: 2 * Dim("half", max=16)}}
    model = from_exported(exported(Net(), torch.ones(8), dynamic_shapes=shapes))
    (symbol,) = model.graph.symbol_names
    x = torch.randn(12)
    found = polyc.compile(model, device="cpu")(x, symbols={symbol: 6})
    assert torch.allclose(found, Net()(x), atol=1e-6)


def test_arguments_and_results_that_are_no_tensors():
    class Net(torch.nn.Module):
        def forward(self, x: Any, scale: float, other: Any = None) -> Any:
            return {"out": x * scale if other is None else x, "none": None, "three": 3}

    model = from_exported(exported(Net(), torch.ones(3), 2.0, None))
    assert list(model.inputs) == ["x"] and len(model.outputs) == 1
    assert polyc.compile(model, device="cpu")(torch.ones(3)).tolist() == [2.0] * 3


def test_every_op_that_cannot_be_said_is_in_one_diagnostic():
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.linalg.inv(x)
            z = torch.special.airy_ai(y)
            w = torch.special.airy_ai(x)
            return torch.fft.rfft(x).real + 1, z + w, torch.nn.functional.pad(x, (1, 1))

    with pytest.raises(PolycError) as caught:
        from_exported(exported(Net(), torch.eye(4)), "net")
    error = caught.value
    assert error.kind == "UnsupportedModel" and error.place is not None
    assert Path(error.place.file).name == "test_torch.py" and error.place.line
    assert "net has" in error.message
    notes = "\n".join(error.notes)
    # The second is seen though what it reads is not known.
    assert notes.count("aten.special_airy_ai.default at ") == 1
    assert "special_airy_ai (" in notes and "special_airy_ai_1 (" in notes
    assert "aten.linalg_inv.default" in notes and "aten.fft_rfft.default" in notes


def test_an_argument_that_a_converter_refuses_is_named():
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0].sum(), x.double()

    with pytest.raises(PolycError) as caught:
        from_exported(exported(Net(), torch.ones(4)))
    notes = "\n".join(caught.value.notes)
    assert "aten.index.Tensor" in notes and "use torch.where" in notes
    assert "torch.float64 is no element type of a graph" in notes


def test_a_model_that_writes_to_what_it_keeps():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x + self.count

    with pytest.raises(PolycError, match="buffer mutation of count: a graph writes to nothing"):
        from_exported(exported(Net(), torch.ones(4)))


def test_a_buffer_that_is_given_itself_is_not_written_to():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(4.0))

        def forward(self, x: Any) -> Any:
            self.table = self.table.to(x.device, x.dtype)
            return x * self.table

    program = exported(Net(), torch.ones(4)).run_decompositions({})
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    assert kinds == ["BUFFER_MUTATION", "USER_OUTPUT"]
    found = polyc.compile(from_exported(program), device="cpu")(torch.full((4,), 2.0))
    assert torch.equal(torch.as_tensor(found), 2 * torch.arange(4.0))


def test_a_batch_norm_in_training():
    program = torch.export.export(torch.nn.BatchNorm1d(4).train(), (torch.ones(2, 4),))
    with pytest.raises(PolycError) as caught:
        from_exported(program)
    assert "export the model in eval mode" in str(caught.value)


def test_a_converter_of_the_users():
    name = "polyc_test::scaled"
    torch.library.define(name, "(Tensor x, float by) -> Tensor")
    torch.library.impl(name, "CompositeExplicitAutograd")(lambda x, by: x * by)
    torch.library.register_fake(name)(lambda x, by: torch.empty_like(x))

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.polyc_test.scaled(x, 3.0)

    program = exported(Net(), torch.ones(4))
    with pytest.raises(PolycError, match=r"polyc_test\.scaled\.default"):
        from_exported(program)

    @polyc.converter("torch", "polyc_test.scaled.default")
    def scaled(x: Any, by: float) -> Any:
        return x * by

    found = polyc.compile(from_exported(program), device="cpu")(torch.ones(4))
    assert found.tolist() == [3.0] * 4

    # A converter that gives another shape is refused, and not believed.
    @polyc.converter("torch", "polyc_test.scaled.default")
    def wrong(x: Any, by: float) -> Any:
        return x.sum()

    with pytest.raises(PolycError, match=r"gives <value \[\] of f32>, and PyTorch \[4\] of f32"):
        from_exported(program)


def test_what_is_no_exported_program():
    with pytest.raises(PolycError, match="a Layer is no ExportedProgram") as caught:
        from_exported(Layer())
    assert caught.value.kind == "BadModel"


class Both(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = torch.nn.Conv2d(2, 3, 1), torch.nn.Linear(5, 4)

    def forward(self, x: Any) -> Any:
        return self.linear(self.conv(x))


@pytest.fixture
def settings() -> Any:
    """PyTorch's settings of precision, which are as they were afterwards."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    yield matmul, cudnn
    matmul.allow_tf32, cudnn.allow_tf32 = before


def said(model: Any) -> list[str]:
    """What the convolution and the product say of their precision."""
    lines = model.text.splitlines()
    ops = [[one for one in lines if name in one] for name in ("frontend.conv2d", "frontend.gemm")]
    return ["tf32" if "tf32" in one[0] else "f32x3" if "f32x3" in one[0] else "" for one in ops]


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("convolutions", [False, True])
def test_products_are_as_precise_as_pytorch_permits(
    settings: Any, products: bool, convolutions: bool
) -> None:
    program = exported(Both(), torch.ones(1, 2, 5, 5))
    settings[0].allow_tf32, settings[1].allow_tf32 = products, convolutions
    model = from_exported(program)
    assert said(model) == ["tf32" if convolutions else "", "tf32" if products else ""]


class Attends(torch.nn.Module):
    def forward(self, q: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize("products", [False, True])
def test_attention_is_as_precise_as_products_are(settings: Any, products: bool) -> None:
    program = exported(Attends(), torch.ones(1, 2, 8, 16))
    settings[0].allow_tf32 = products
    (line,) = [x for x in from_exported(program).text.splitlines() if "frontend.attention" in x]
    assert ('precision = "tf32"' in line) == products


def test_the_precision_of_products_by_its_other_setting(settings: Any) -> None:
    program = exported(Both(), torch.ones(1, 2, 5, 5))
    torch.set_float32_matmul_precision("high")
    assert said(from_exported(program))[1] == "tf32"
    torch.set_float32_matmul_precision("highest")
    assert said(from_exported(program))[1] == ""


def test_a_precision_that_is_asked_for_is_that_of_all_products(settings: Any) -> None:
    program = exported(Both(), torch.ones(1, 2, 5, 5))
    assert said(from_exported(program, precision="f32x3")) == ["f32x3", "f32x3"]
    with pytest.raises(PolycError, match="f16 is no precision; there are f32, tf32, f32x3"):
        from_exported(program, precision="f16")


def test_products_of_other_types_have_no_precision(settings: Any) -> None:
    settings[0].allow_tf32 = settings[1].allow_tf32 = True
    model = from_exported(exported(Both().half(), torch.ones(1, 2, 5, 5).half()))
    assert said(model) == ["", ""]
