"""Files of exported programs: read, malformed, cut off, and with what would run."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc import PolycError  # noqa: E402
from polyc.importers.pt2 import load_exported  # noqa: E402
from polyc.test.unit.importers.test_torch import Layer, exported  # noqa: E402
from polyc.tools.commands.command_line import run  # noqa: E402

Dim = torch.export.Dim


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "layer.pt2"
    shapes = {"x": {0: Dim("batch", max=64)}}
    torch.export.save(exported(Layer(), torch.ones(2, 4), dynamic_shapes=shapes), path)
    return path


def test_a_file_is_imported_and_run(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text, params = tmp_path / "layer.mlir", tmp_path / "layer.safetensors"
    assert run(["import", str(file), "-o", str(text), "--params", str(params)]) == 0
    assert "4 parameters in" in capsys.readouterr().out
    (symbol,) = polyc.compile(text, params=params, device="cpu").signature.symbols
    at = ["--set", f"{symbol}=8", "--device=cpu"]
    assert run(["run", str(text), "--params", str(params), *at]) == 0
    assert "agree with the FP32 reference" in capsys.readouterr().out
    x = torch.randn(5, 4)
    found = polyc.compile(text, params=params, device="cpu")(x)
    assert torch.allclose(found, Layer()(x), atol=1e-6)


OTHER = """
import sys, torch
from dataclasses import dataclass

@dataclass
class Found:
    y: torch.Tensor
    z: torch.Tensor

torch.utils._pytree.register_pytree_node(
    Found,
    lambda one: ([one.y, one.z], None),
    lambda values, context: Found(*values),
    serialized_type_name="nobody.Found",
    to_dumpable_context=lambda context: "x",
    from_dumpable_context=lambda text: None,
)

class Net(torch.nn.Module):
    def forward(self, x):
        return Found(x * 2, x.sum(0))

torch.export.save(torch.export.export(Net(), (torch.ones(2, 3),)), sys.argv[1])
"""


def test_results_of_a_class_that_is_not_known_here(tmp_path: Path):
    """As of transformers' models, where transformers is not imported."""
    path = tmp_path / "found.pt2"
    subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True)
    program = polyc.compile(polyc.from_exported(load_exported(path)), device="cpu")
    x = torch.randn(2, 3)
    for got, wanted in zip(program(x), (x * 2, x.sum(0)), strict=True):
        assert torch.allclose(got, wanted, atol=1e-6)


def test_what_pytorch_logs_is_in_the_diagnostic(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    path = tmp_path / "other.pt2"
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("models/model.json"):
                data = data.replace(b"aten.linear.default", b"aten.nothing.default")
            target.writestr(name, data)
    with pytest.raises(PolycError, match=r"cannot be read as an exported program: .*nothing"):
        load_exported(path)
    assert "Traceback" not in capfd.readouterr().err


def test_options_of_other_models(file: Path):
    assert run(["import", str(file), "--size", "N=2"]) == 1


@pytest.mark.parametrize("cut", [0, 3, 4, 100, 0.3, 0.7, 0.98])
def test_a_file_that_is_cut_off(file: Path, tmp_path: Path, cut: float):
    data = file.read_bytes()
    short = tmp_path / "short.pt2"
    short.write_bytes(data[: int(cut * len(data)) if isinstance(cut, float) else cut])
    with pytest.raises(PolycError) as caught:
        load_exported(short)
    assert caught.value.kind == "BadModel" and "short.pt2" in caught.value.message


def test_an_archive_of_something_else(tmp_path: Path):
    import zipfile

    other = tmp_path / "other.pt2"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a/b.txt", "text")
    with pytest.raises(PolycError, match="cannot be read as an exported program"):
        load_exported(other)


class Evil:
    """A pickle of it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return open, (str(self.mark), "w")


def changed(file: Path, to: Path, change: Callable[[str, bytes], bytes], **more: bytes) -> Path:
    """The archive with other contents of its entries, and with more of them."""
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(to, "w") as archive:
        for entry in source.namelist():
            archive.writestr(entry, change(entry, source.read(entry)))
        for entry, data in more.items():
            archive.writestr(entry, data)
    return to


def refused(path: Path, mark: Path) -> str:
    with pytest.raises(PolycError) as caught:
        load_exported(path)
    assert caught.value.kind == "BadModel" and not mark.exists()
    return caught.value.message


def test_pickles_are_not_run(file: Path, tmp_path: Path):
    mark, bad = tmp_path / "ran", tmp_path / "bad.pt2"
    evil = pickle.dumps(Evil(mark))
    inputs = changed(file, bad, lambda entry, data: evil if entry.endswith(".pt") else data)
    assert "cannot be read" in refused(inputs, mark)
    for entry, why in {
        "layer/data/constants/custom_obj_0": "holds code or objects",
        "layer/data/constants/opaque_obj_0": "holds code or objects",
        "layer/data/constants/model.pt": "holds code or objects",
        "layer/data/aotinductor/model/wrapper.so": "holds code or objects",
        "LAYER/models/model.json": "two entries of one name",
    }.items():
        assert why in refused(changed(file, bad, lambda _, data: data, **{entry: evil}), mark)
    pickled = changed(
        file, bad, lambda _, data: data.replace(b'"use_pickle":false', b'"use_pickle":true')
    )
    if b"use_pickle" in file.read_bytes():
        with zipfile.ZipFile(pickled) as archive:
            text = archive.read("layer/data/weights/model_weights_config.json")
        if b'"use_pickle":true' in text.replace(b" ", b""):
            assert "as pickles" in refused(pickled, mark)


def test_ops_and_sizes_are_no_other_names(file: Path, tmp_path: Path):
    mark, bad = tmp_path / "ran", tmp_path / "bad.pt2"

    def with_value(key: str, value: str) -> Path:
        def change(entry: str, data: bytes) -> bytes:
            if "/models/" not in entry:
                return data
            whole = json.loads(data)
            left: list[Any] = [whole]
            while left:
                one = left.pop()
                if isinstance(one, dict):
                    if isinstance(one.get(key), str):
                        one[key] = value
                    left += one.values()
                elif isinstance(one, list):
                    left += one
            return json.dumps(whole).encode()

        return changed(file, bad, change)

    for target in ("torch.os.system", "torch.ops.__class__.x.y", "torch.hub.load", "#x"):
        assert f"has {target!r} for an op" in refused(with_value("target", target), mark)
    for size in (
        f"__import__('os').system('touch {mark}')",
        "Symbol('s0').__class__",
        "exit()",
        "[x for x in s0]",
        "breakpoint()",
    ):
        assert "for a size" in refused(with_value("expr_str", size), mark)
    load_exported(with_value("expr_str", "2*Symbol('s77', positive=True, integer=True)"))


def test_the_environment_is_as_before(file: Path, monkeypatch: pytest.MonkeyPatch):
    import os

    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    load_exported(file)
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
