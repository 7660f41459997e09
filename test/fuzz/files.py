"""Mutated model files: ``python -m polyc.test.fuzz.files [onnx|pt2] [--runs N] [--seed S]``.

Valid files of small models are changed, their bytes, their nodes, types, sizes, names and numbers,
and imported.  Each is either imported or one ``PolycError``; anything else is printed with its
seed: another exception, more than ``SECONDS`` of time, or more than ``BYTES`` of memory.
"""

# pyright: basic

from __future__ import annotations

import argparse
import copy
import io
import json
import random
import resource
import signal
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.rewriting.notes import unsaid

SECONDS = 20
BYTES = 6 << 30

HOSTILE = (-1, 0, 1, 2, 3, 7, 255, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1)
"""Numbers that are put in the place of others."""


class _Slow(BaseException):
    """The time of one file is over."""


# ONNX ---------------------------------------------------------------------------------------


def onnx_models() -> list[Any]:
    """Valid models of several kinds of ops."""
    onnx: Any = import_module("onnx")
    np: Any = import_module("numpy")
    h, numpy = onnx.helper, onnx.numpy_helper
    f32, i64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

    def model(nodes: Sequence[Any], x: Any, y: Any, **numbers: Any) -> Any:
        kept = [numpy.from_array(np.asarray(v), k) for k, v in numbers.items()]
        graph = h.make_graph(nodes, "g", x, y, kept)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)

    def value(name: str, shape: Sequence[Any], kind: int = f32) -> Any:
        return h.make_tensor_value_info(name, kind, shape)

    n, r = h.make_node, np.random.default_rng(0).standard_normal
    floats = lambda *shape: r(shape).astype(np.float32)  # noqa: E731
    body = h.make_graph(
        [n("Add", ["s", "e"], ["t"]), n("Identity", ["t"], ["o"])],
        "body",
        [value("s", [3]), value("e", [3])],
        [value("t", [3]), value("o", [3])],
    )
    branch = [
        h.make_graph([n(op, ["x"], ["z"])], op, [], [value("z", ["N", 4])])
        for op in ("Relu", "Tanh")
    ]
    found = [
        model(
            [
                n("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                n("BatchNormalization", ["c", "s", "o", "m", "v"], ["d"]),
                n("Relu", ["d"], ["e"]),
                n("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
                n("GlobalAveragePool", ["f"], ["g"]),
                n("Flatten", ["g"], ["k"]),
                n("Gemm", ["k", "l"], ["y"], transB=1),
            ],
            [value("x", ["N", 3, 8, 8])],
            [value("y", ["N", 5])],
            w=floats(4, 3, 3, 3),
            b=floats(4),
            s=floats(4),
            o=floats(4),
            m=floats(4),
            v=abs(floats(4)) + 1,
            l=floats(5, 4),
        ),
        model(
            [
                n("Shape", ["x"], ["a"]),
                n("Gather", ["a", "zero"], ["b"], axis=0),
                n("Concat", ["b", "rest"], ["c"], axis=0),
                n("Reshape", ["x", "c"], ["d"]),
                n("Transpose", ["d"], ["e"], perm=[0, 2, 1]),
                n("MatMul", ["d", "e"], ["f"]),
                n("Softmax", ["f"], ["g"], axis=-1),
                n("Slice", ["g", "from", "to", "axes"], ["h"]),
                n("ReduceSum", ["h", "axes"], ["y"], keepdims=0),
            ],
            [value("x", ["N", 12])],
            [value("y", "ab")],
            zero=np.array([0]),
            rest=np.array([3, 4]),
            **{"from": np.array([0]), "to": np.array([2]), "axes": np.array([1])},
        ),
        model(
            [
                n("Scan", ["i", "x"], ["f", "y"], body=body, num_scan_inputs=1),
                n("Split", ["y"], ["p", "q"], axis=1, num_outputs=2),
                n("Pad", ["p", "pads"], ["r"], mode="constant"),
                n("Resize", ["r", "", "", "sizes"], ["u"], mode="nearest"),
                n("Expand", ["u", "sizes"], ["w"]),
                n("Tile", ["w", "times"], ["z"]),
            ],
            [value("x", [5, 3])],
            [value("f", [3]), value("z", "cd")],
            i=floats(3),
            pads=np.array([0, 1, 0, 1]),
            sizes=np.array([10, 8]),
            times=np.array([1, 2]),
        ),
        model(
            [
                n("If", ["c"], ["z"], then_branch=branch[0], else_branch=branch[1]),
                n("LSTM", ["q", "W", "R"], ["h"], hidden_size=2),
                n("Range", ["start", "stop", "step"], ["r"]),
                n("OneHot", ["places", "depth", "both"], ["o"]),
                n("ConstantOfShape", ["shape"], ["k"]),
                n("Constant", [], ["j"], value=numpy.from_array(floats(2, 2), "j")),
            ],
            [value("x", ["N", 4]), value("q", [3, 1, 4])],
            [
                *(value("z", "ab"), value("h", "abcd"), value("o", "ab"), value("k", "ab")),
                *(value("j", "ab"), value("r", "e", i64)),
            ],
            c=np.array(True),
            W=floats(1, 8, 4),
            R=floats(1, 8, 2),
            start=np.array(0),
            stop=np.array(6),
            step=np.array(2),
            places=np.array([1, 0]),
            depth=np.array(3),
            both=np.array([0.0, 1.0], np.float32),
            shape=np.array([2, 3]),
        ),
        model(
            [
                n("QuantizeLinear", ["x", "s", "z"], ["a"]),
                n("DequantizeLinear", ["a", "s", "z"], ["b"]),
                n("Cast", ["b"], ["c"], to=onnx.TensorProto.FLOAT16),
                n("Cast", ["c"], ["d"], to=f32),
                n("LayerNormalization", ["d", "w"], ["e"]),
                n("TopK", ["e", "k"], ["y", "p"]),
                n("CumSum", ["e", "axis"], ["t"]),
                n("Einsum", ["e", "t"], ["u"], equation="ij,kj->ik"),
            ],
            [value("x", [4, 6])],
            [value("y", "ab"), value("p", "ab", i64), value("u", "cc")],
            s=np.array(0.1, np.float32),
            z=np.array(3, np.uint8),
            w=floats(6),
            k=np.array([2]),
            axis=np.array(1),
        ),
    ]
    for one in found:
        onnx.checker.check_model(one)
    return found


def changed_onnx(draw: random.Random, model: Any) -> bytes:
    """The bytes of a model with something else in it."""
    model = copy.deepcopy(model)
    graph = model.graph
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        node = draw.choice(graph.node) if graph.node else None
        names = [name for one in graph.node for name in (*one.input, *one.output)]
        kind = draw.randrange(16)
        if kind == 0 and node is not None:
            graph.node.remove(node)
        elif kind == 1 and node is not None:
            graph.node.append(node)
        elif kind == 2 and node is not None and node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice([*names, "", "nothing"])
        elif kind == 3 and node is not None:
            node.output[0] = draw.choice([*names, ""])
        elif kind == 4 and node is not None:
            known = [one.op_type for one in graph.node]
            node.op_type = draw.choice([*known, "Nothing", "Loop", "", "Mul", "Gather", "Where"])
        elif kind == 5 and node is not None:
            node.domain = draw.choice(["", "ai.onnx.ml", "com.microsoft", "x" * 99])
        elif kind == 6:
            model.opset_import[0].version = draw.choice(HOSTILE)
        elif kind == 7 and node is not None and node.attribute:
            _change_attribute(draw, draw.choice(node.attribute))
        elif kind == 8 and graph.initializer:
            one = draw.choice(graph.initializer)
            if one.dims and draw.random() < 0.7:
                one.dims[draw.randrange(len(one.dims))] = draw.choice(HOSTILE)
            else:
                one.dims.append(draw.choice(HOSTILE))
        elif kind == 9 and graph.initializer:
            one = draw.choice(graph.initializer)
            one.data_type = draw.choice([0, 1, 3, 6, 7, 8, 9, 10, 14, 16, 22, 99])
        elif kind == 10 and graph.initializer:
            one = draw.choice(graph.initializer)
            data = bytearray(one.raw_data)
            if draw.random() < 0.5:
                one.raw_data = bytes(data[: draw.randrange(len(data) + 1)])
            else:
                for place in range(0, len(data), 8):  # integers that are somewhere else
                    number = draw.choice(HOSTILE)
                    data[place : place + 8] = (number % (1 << 64)).to_bytes(8, "little")
                one.raw_data = bytes(data[: len(one.raw_data)])
        elif kind == 11 and graph.initializer:
            graph.initializer.remove(draw.choice(graph.initializer))
        elif kind == 12 and graph.initializer:
            one = draw.choice(graph.initializer)
            one.data_location = 1
            entry = one.external_data.add()
            entry.key = "location"
            entry.value = draw.choice(["/etc/passwd", "../secret", "link", "a/../../b", "\0", ""])
        elif kind == 13 and graph.input:
            one = draw.choice(graph.input).type.tensor_type
            if one.shape.dim:
                dim = draw.choice(one.shape.dim)
                if draw.random() < 0.6:
                    dim.dim_value = draw.choice(HOSTILE)
                else:
                    dim.dim_param = draw.choice(["N", "", "1x", "a b", "N" * 500, "-1"])
        elif kind == 14 and graph.input:
            draw.choice(graph.input).type.tensor_type.elem_type = draw.choice(range(24))
        elif kind == 15 and graph.output:
            one = draw.choice(graph.output)
            if draw.random() < 0.5:
                one.name = draw.choice([*names, "nothing"])
            else:
                graph.output.remove(one)
    try:
        return _bytes_changed(draw, model.SerializeToString())
    except ValueError:
        return b""


def _change_attribute(draw: random.Random, one: Any) -> None:
    kind = draw.randrange(6)
    if kind == 0 and one.ints:
        one.ints[draw.randrange(len(one.ints))] = draw.choice(HOSTILE)
    elif kind == 1 and one.ints:
        one.ints.append(draw.choice(HOSTILE))
    elif kind == 2:
        one.i = draw.choice(HOSTILE)
    elif kind == 3:
        one.name = draw.choice(["axis", "axes", "perm", "nothing", ""])
    elif kind == 4:
        one.type = draw.choice([0, 1, 2, 3, 4, 5, 6, 7])
    else:
        one.s = draw.choice([b"", b"constant", b"\xff\xfe", b"ij->", b"x" * 99])


def _bytes_changed(draw: random.Random, data: bytes) -> bytes:
    if draw.random() < 0.85:
        return data
    found = bytearray(data)
    for _ in range(draw.choice([1, 2, 8])):
        if not found:
            break
        place = draw.randrange(len(found))
        match draw.randrange(3):
            case 0:
                found[place] = draw.randrange(256)
            case 1:
                del found[place : place + draw.choice([1, 4, 64])]
            case _:
                found = found[:place]
    return bytes(found)


# .pt2 ---------------------------------------------------------------------------------------


def pt2_files() -> list[bytes]:
    """Archives of exported programs."""
    torch: Any = import_module("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
            self.out = torch.nn.Linear(4, 2)
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.norm(self.conv(x))).mean((2, 3))
            return self.out(y).softmax(-1) + self.shift, y[:, 1:]

    class Rows(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.cat([x @ y, x[:, :2] * 2], 1).reshape(-1).cumsum(0), x.shape[0] * 2

    size = torch.export.Dim("rows", min=2, max=64)
    made = [
        torch.export.export(Net().eval(), (torch.randn(2, 3, 6, 6),)),
        torch.export.export(
            Rows(),
            (torch.randn(4, 3), torch.randn(3, 2)),
            dynamic_shapes=({0: size}, None),
        ),
    ]
    found: list[bytes] = []
    for one in made:
        file = io.BytesIO()
        torch.export.save(one, file)
        found.append(file.getvalue())
    return found


def changed_pt2(draw: random.Random, data: bytes) -> bytes:
    """An archive with something else in it."""
    source = zipfile.ZipFile(io.BytesIO(data))
    made = io.BytesIO()
    names = source.namelist()
    target = draw.choice([name for name in names if name.endswith(".json")] * 3 + names)
    kind = draw.randrange(8)
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            text = source.read(name)
            if name == target:
                if kind == 0:
                    continue
                if kind == 1:
                    name = draw.choice(
                        ["../../outside", "/tmp/absolute", name.upper(), "x/" + name]
                    )
                elif name.endswith(".json"):
                    tree = json.loads(text)
                    for _ in range(draw.choice([1, 1, 2, 4])):
                        tree = _tree_changed(draw, tree)
                    text = json.dumps(tree).encode()
                else:
                    text = _bytes_changed(random.Random(draw.random()), text + b"\0" * 3)
            archive.writestr(name, text)
    return _bytes_changed(draw, made.getvalue())


def _tree_changed(draw: random.Random, tree: Any) -> Any:
    """JSON with one value, or one key, that is another."""
    places: list[tuple[Any, Any]] = []
    left = [tree]
    while left:
        one = left.pop()
        items = one.items() if isinstance(one, dict) else enumerate(one)
        for key, value in items:
            places.append((one, key))
            if isinstance(value, dict | list):
                left.append(value)
    if not places:
        return tree
    inside, key = draw.choice(places)
    value = inside[key]
    kind = draw.randrange(5)
    if kind == 0:
        del inside[key]
    elif kind == 1:
        inside[key] = draw.choice([None, [], {}, "", "s0", True, *HOSTILE])
    elif kind == 2 and isinstance(value, int):
        inside[key] = draw.choice(HOSTILE)
    elif kind == 3:
        other, place = draw.choice(places)
        inside[key] = copy.deepcopy(other[place])
    elif isinstance(value, str):
        inside[key] = draw.choice(["torch.ops.aten.relu.default", "x" * 300, "s77", value + "_"])
    return tree


# Runs ---------------------------------------------------------------------------------------


def fault(read: Callable[[Path], object], data: bytes, ending: str, folder: Path) -> str | None:
    """What is wrong with how a file is imported, None where nothing is."""
    path = folder / f"model{ending}"
    path.write_bytes(data)

    def late(*_: object) -> None:
        raise _Slow

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with unsaid():
            read(path)
    except (PolycError, OSError) as error:
        text = str(error)
        return f"a diagnostic of {len(text)} letters" if len(text) > 100_000 else None
    except _Slow:
        return f"takes more than {SECONDS} seconds"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    return None


def onnx_reader(path: Path) -> object:
    from polyc.importers.onnx import from_onnx

    return from_onnx(path).text


def pt2_reader(path: Path) -> object:
    from polyc.importers.pt2 import load_exported
    from polyc.importers.torch import from_exported

    return from_exported(load_exported(path)).text


def main(args: Sequence[str]) -> int:
    """Import changed files; returns 1 where one is no import and no diagnostic."""
    parser = argparse.ArgumentParser(description="Mutated model files.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="onnx, pt2; without one both")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(args)
    given.kinds = given.kinds or ["onnx", "pt2"]
    if unknown := set(given.kinds) - {"onnx", "pt2"}:
        parser.error(f"there is no kind {unknown.pop()}")
    wrong = 0
    for kind in given.kinds:
        if find_spec({"onnx": "onnx", "pt2": "torch"}[kind]) is None:
            print(f"{kind}: the library is not installed")
            continue
        made: list[Any] = onnx_models() if kind == "onnx" else pt2_files()
        change, read, ending = {
            "onnx": (changed_onnx, onnx_reader, ".onnx"),
            "pt2": (changed_pt2, pt2_reader, ".pt2"),
        }[kind]
        for one in made:
            data = one if kind == "pt2" else one.SerializeToString()
            with tempfile.TemporaryDirectory() as folder:
                if (why := fault(read, data, ending, Path(folder))) is not None:
                    print(f"{kind}: an unchanged file: {why}")
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_now_used() + BYTES, hard))
        seen: set[str] = set()
        for seed in range(given.seed, given.seed + given.runs):
            draw = random.Random(seed)
            data = change(draw, made[seed % len(made)])
            with tempfile.TemporaryDirectory() as folder:
                why = fault(read, data, ending, Path(folder))
            if why is not None:
                wrong += 1
                last = why.strip().splitlines()[-1][:160]
                where = [line for line in why.splitlines() if "polyc" in line][-1:]
                if (key := f"{where}{last}") not in seen:
                    seen.add(key)
                    print(f"{kind} --seed {seed} --runs 1: {last} {''.join(where).strip()}")
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        print(f"{kind}: {given.runs} files, {wrong} wrong")
    return int(wrong > 0)


def _now_used() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
