"""Mutated model files: some of them in every run, and hostile ones by name."""

# pyright: basic

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyc import PolycError
from polyc.importers.onnx import from_onnx
from polyc.test.fuzz import files

RUNS = 60


def test_changed_onnx_files_are_imports_or_diagnostics(tmp_path: Path):
    pytest.importorskip("onnx")
    made = files.onnx_models()
    refused = 0
    for one in made:
        assert files.fault(files.onnx_reader, one.SerializeToString(), ".onnx", tmp_path) is None
    for seed in range(RUNS):
        data = files.changed_onnx(random.Random(seed), made[seed % len(made)])
        assert files.fault(files.onnx_reader, data, ".onnx", tmp_path) is None, f"--seed {seed}"
        try:
            files.onnx_reader(tmp_path / "model.onnx")
        except PolycError:
            refused += 1
    assert RUNS // 4 < refused < RUNS


def test_changed_pt2_files_are_imports_or_diagnostics(tmp_path: Path, capfd: Any):
    pytest.importorskip("torch")
    made = files.pt2_files()
    for one in made:
        assert files.fault(files.pt2_reader, one, ".pt2", tmp_path) is None
    for seed in range(RUNS // 2):
        data = files.changed_pt2(random.Random(seed), made[seed % len(made)])
        assert files.fault(files.pt2_reader, data, ".pt2", tmp_path) is None, f"--seed {seed}"
    assert "Traceback" not in capfd.readouterr().err


def test_a_fault_is_one(tmp_path: Path):
    def wrong(path: Path) -> object:
        raise KeyError(str(path))

    assert "KeyError" in str(files.fault(wrong, b"", ".onnx", tmp_path))


def test_an_archive_that_unpacks_to_much(tmp_path: Path):
    pytest.importorskip("torch")
    from polyc.importers.pt2 import load_exported

    path = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/archive_version", "0")
        archive.writestr("archive/models/model.json", b"[" + b"0," * (32 << 20) + b"0]")
    with pytest.raises(PolycError, match="that unpack to 671088") as caught:
        load_exported(path)
    assert caught.value.kind == "BadModel"


# Hostile graphs of ONNX ----------------------------------------------------------------------


def _model(change: Callable[[Any, Any], None]) -> Any:
    onnx = pytest.importorskip("onnx")
    h, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = h.make_graph(
        [h.make_node("Relu", ["x"], ["a"]), h.make_node("Add", ["a", "b"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", kind, ["N", 4])],
        [h.make_tensor_value_info("y", kind, ["N", 4])],
        [onnx.numpy_helper.from_array(np.ones(4, np.float32), "b")],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)
    change(onnx, model)
    return model


def _cycle(onnx: Any, model: Any) -> None:
    model.graph.node[0].input[0] = "y"


def _missing(onnx: Any, model: Any) -> None:
    del model.graph.initializer[:]


def _twice(onnx: Any, model: Any) -> None:
    model.graph.node[1].output[0] = "a"


def _two_numbers(onnx: Any, model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def _domain(onnx: Any, model: Any) -> None:
    model.graph.node[0].domain = "nobody.knows"
    model.opset_import.append(onnx.helper.make_opsetid("nobody.knows", 1))


def _opset(onnx: Any, model: Any) -> None:
    model.opset_import[0].version = 1 << 40


def _type(onnx: Any, model: Any) -> None:
    model.graph.initializer[0].data_type = onnx.TensorProto.DOUBLE


def _negative(onnx: Any, model: Any) -> None:
    model.graph.initializer[0].dims[0] = -4


def _huge(onnx: Any, model: Any) -> None:
    model.graph.initializer[0].dims[0] = (1 << 31) - 1


def _overflowing(onnx: Any, model: Any) -> None:
    model.graph.initializer[0].dims[:] = [1 << 62, 4]


def _without_numbers(onnx: Any, model: Any) -> None:
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].dims[0] = 1 << 30


def _repeats(onnx: Any, model: Any) -> None:
    times = onnx.numpy_helper.from_array(np.array([1, 1 << 40]), "times")
    model.graph.initializer.append(times)
    model.graph.node[1].op_type = "Tile"
    model.graph.node[1].input[1] = "times"


def _expanded(onnx: Any, model: Any) -> None:
    shape = onnx.numpy_helper.from_array(np.array([1 << 33, 4]), "shape")
    model.graph.initializer.append(shape)
    model.graph.node[1].op_type = "Expand"
    model.graph.node[1].input[1] = "shape"


def _filled(onnx: Any, model: Any) -> None:
    shape = onnx.numpy_helper.from_array(np.array([1 << 20, 1 << 20]), "shape")
    model.graph.initializer.append(shape)
    node = onnx.helper.make_node("ConstantOfShape", ["shape"], ["f"])
    model.graph.node.insert(0, node)
    model.graph.node[2].input[1] = "f"


def _counted(onnx: Any, model: Any) -> None:
    numbers = {"from": 0, "to": 1 << 40, "by": 1}
    for name, number in numbers.items():
        one = onnx.numpy_helper.from_array(np.array(number), name)
        model.graph.initializer.append(one)
    model.graph.node.insert(0, onnx.helper.make_node("Range", list(numbers), ["f"]))
    model.graph.node[2].input[1] = "f"


def _looped(onnx: Any, model: Any) -> None:
    h, kind = onnx.helper, onnx.TensorProto
    body = h.make_graph(
        [
            h.make_node("Identity", ["go"], ["on"]),
            h.make_node("Relu", ["v"], ["w"]),
        ],
        "body",
        [
            h.make_tensor_value_info("i", kind.INT64, []),
            h.make_tensor_value_info("go", kind.BOOL, []),
            h.make_tensor_value_info("v", kind.FLOAT, ["N", 4]),
        ],
        [
            h.make_tensor_value_info("on", kind.BOOL, []),
            h.make_tensor_value_info("w", kind.FLOAT, ["N", 4]),
        ],
    )
    for name, value in (("most", np.array(1 << 40)), ("yes", np.array(True))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    model.graph.node.insert(1, h.make_node("Loop", ["most", "yes", "a"], ["l"], body=body))
    model.graph.node[2].input[0] = "l"


CHANGES = (
    *(_cycle, _missing, _twice, _two_numbers, _domain, _opset, _type, _negative, _huge),
    *(_overflowing, _without_numbers, _repeats, _expanded, _filled, _counted, _looped),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_hostile_graph_is_one_diagnostic(change: Callable[[Any, Any], None], tmp_path: Path):
    model = _model(change)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(PolycError) as caught:
        from_onnx(path)
    said = str(caught.value)
    assert caught.value.kind in ("BadModel", "UnsupportedModel"), said
    assert "model.onnx" in said and len(said) < 2000
