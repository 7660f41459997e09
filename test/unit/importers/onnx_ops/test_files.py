"""ONNX files that are malformed, cut short or hostile: one diagnostic, and nothing read outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.onnx_ops.files import Tensors

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")
helper: Any = onnx.helper


def model(weight: Any) -> Any:
    """``x @ weight``, for x of [2, 4] and a weight of [4, 3]."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", 1, [2, 4])],
        [helper.make_tensor_value_info("y", 1, None)],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


NUMBERS = np.arange(12, dtype=np.float32).reshape(4, 3)


def external(location: str, offset: str | None = None, length: str | None = None) -> Any:
    """A weight whose numbers lie in a file."""
    made = onnx.TensorProto(name="weight", data_type=1, dims=[4, 3], data_location=1)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            made.external_data.add(key=key, value=value)
    return made


def saved(folder: Path, weight: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "net.onnx"
    path.write_bytes(model(weight).SerializeToString())
    return path


def refused(path: Path, words: str) -> None:
    with pytest.raises(PolycError, match=words) as caught:
        polyc.from_onnx(path)
    assert caught.value.kind == "BadModel"


def test_external_data_of_the_models_folder_is_read(tmp_path: Path):
    path = saved(tmp_path / "net", external("data/weight.bin", "8"))
    (path.parent / "data").mkdir()
    (path.parent / "data" / "weight.bin").write_bytes(b"12345678" + NUMBERS.tobytes())
    found = polyc.from_onnx(path)
    np.testing.assert_array_equal(found.parameters["weight"], NUMBERS)


@pytest.mark.parametrize(
    "how",
    [
        "../weight.bin",
        "data/../../weight.bin",
        "..\\weight.bin",
        "C:\\weight.bin",
        "C:weight.bin",
        "/etc/passwd",
        "",
        "a\0b",
    ],
)
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, how: str):
    path = saved(tmp_path / "net", external(how))
    (tmp_path / "weight.bin").write_bytes(NUMBERS.tobytes())
    refused(path, "no path inside of the model's folder|is refused by onnx")


def test_an_absolute_path_is_refused_though_it_leads_inside(tmp_path: Path):
    path = saved(tmp_path / "net", external(str(tmp_path / "net" / "weight.bin")))
    (tmp_path / "net" / "weight.bin").write_bytes(NUMBERS.tobytes())
    refused(path, "no path inside of the model's folder")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, kind: str):
    (tmp_path / "weight.bin").write_bytes(NUMBERS.tobytes())
    path = saved(tmp_path / "net", external("weight.bin" if kind == "file" else "up/weight.bin"))
    if kind == "file":
        os.symlink(tmp_path / "weight.bin", path.parent / "weight.bin")
    else:
        os.symlink(tmp_path, path.parent / "up")
    refused(path, "leads out of the model's folder")


def test_nothing_outside_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "weight.bin").write_bytes(NUMBERS.tobytes())
    path = saved(tmp_path / "net", external("../weight.bin"))
    opened: list[str] = []

    def told(file: object, **_: object) -> None:
        opened.append(str(file))

    monkeypatch.setattr(np, "fromfile", told)
    refused(path, "inside of the model's folder")
    assert opened == []


def test_what_is_no_file(tmp_path: Path):
    refused(saved(tmp_path / "net", external("weight.bin")), "no file of the model's folder")
    path = saved(tmp_path / "net", external("pipe"))
    os.mkfifo(path.parent / "pipe")  # reading it would wait for ever
    refused(path, "no file of the model's folder")


@pytest.mark.parametrize(
    ("offset", "length"),
    [("0", "44"), ("0", "52"), ("8", None), ("-4", None), ("many", None), ("0", "9" * 30)],
)
def test_numbers_that_the_file_has_not(tmp_path: Path, offset: str, length: str | None):
    path = saved(tmp_path / "net", external("weight.bin", offset, length))
    (path.parent / "weight.bin").write_bytes(NUMBERS.tobytes())
    refused(path, "weight")


def test_a_model_without_a_folder():
    with pytest.raises(PolycError, match="give the folder"):
        polyc.from_onnx(model(external("weight.bin")))


def test_a_file_that_is_cut_short(tmp_path: Path):
    path = saved(tmp_path / "net", onnx.numpy_helper.from_array(NUMBERS, "weight"))
    whole = path.read_bytes()
    polyc.from_onnx(path)
    for length in range(0, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(PolycError) as caught:
            polyc.from_onnx(path)
        assert caught.value.kind in ("BadModel", "UnsupportedModel")


def test_bytes_that_are_changed(tmp_path: Path):
    """A file with one byte changed is a model, or one diagnostic."""
    path = saved(tmp_path / "net", onnx.numpy_helper.from_array(NUMBERS, "weight"))
    whole = bytearray(path.read_bytes())
    rng = np.random.default_rng(1)
    for place in rng.choice(len(whole), len(whole), replace=False):
        before: int = whole[int(place)]
        whole[place] = int(rng.integers(256))
        path.write_bytes(whole)
        try:
            polyc.from_onnx(path)
        except PolycError as error:
            assert error.kind in ("BadModel", "UnsupportedModel", "BadArgument"), error
        whole[place] = before


def test_texts_and_folders(tmp_path: Path):
    (tmp_path / "net.onnx").write_text("no model at all, but a text")
    refused(tmp_path / "net.onnx", "is no ONNX model")
    with pytest.raises(OSError):
        polyc.from_onnx(tmp_path)
    with pytest.raises(OSError):
        polyc.from_onnx(tmp_path / "nothing.onnx")


@pytest.mark.parametrize("dims", [[2**40, 2**40], [-1, 3], [10**6, 10**6], [5, 3]])
def test_sizes_that_the_bytes_do_not_have(tmp_path: Path, dims: list[int]):
    weight = onnx.TensorProto(name="weight", data_type=1, dims=dims, raw_data=NUMBERS.tobytes())
    refused(saved(tmp_path / "net", weight), "weight|refused by onnx")


def test_a_shape_that_no_memory_holds(tmp_path: Path):
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["big"]),
            helper.make_node("Add", ["x", "big"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.array([2**20, 2**20]), "shape")],
    )
    opsets = [helper.make_opsetid("", 21)]
    found = polyc.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    assert "1048576, 1048576" in found.text  # a constant, broadcast: nothing of that size is made


@pytest.mark.parametrize("size", [-3, 2**31, 2**62])
def test_a_size_of_an_input_that_is_none(size: int):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", 1, [size])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(PolycError) as caught:
        polyc.from_onnx(one)
    assert caught.value.kind == "BadModel"


def test_a_loop_that_does_not_end():
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["a"], ["b"])],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("c", 9, []),
            helper.make_tensor_value_info("a", 1, [1]),
        ],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("b", 1, [1])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "on", "x"], ["y"], body=body)],
        "net",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, [1])],
        [onnx.numpy_helper.from_array(np.array(True), "on")],
    )
    one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(PolycError, match="Loop") as caught:
        polyc.from_onnx(one)
    assert "more than 1024 turns" in caught.value.format()


def test_a_function_that_calls_itself():
    body = helper.make_function(
        "mine",
        "Again",
        ["a"],
        ["b"],
        [helper.make_node("Again", ["a"], ["b"], domain="mine")],
        [helper.make_opsetid("mine", 1)],
    )
    graph = helper.make_graph(
        [helper.make_node("Again", ["x"], ["y"], domain="mine")],
        "net",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, [1])],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    one = helper.make_model(graph, opset_imports=opsets, functions=[body], ir_version=10)
    with pytest.raises(PolycError) as caught:
        polyc.from_onnx(one)
    assert caught.value.kind == "BadModel"


def test_a_sparse_tensor_is_read():
    values = onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "weight")
    for indices in (np.array([1, 5]), np.array([[0, 1], [1, 2]])):
        sparse = helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(indices), [4, 3])
        found = Tensors(onnx, "net", None).dense(sparse)
        assert found[0, 1] == 1 and found[1, 2] == 2 and found.sum() == 3
    far = onnx.numpy_helper.from_array(np.array([1, 50]))
    with pytest.raises(PolycError, match="places outside"):
        Tensors(onnx, "net", None).dense(helper.make_sparse_tensor(values, far, [4, 3]))
