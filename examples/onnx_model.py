"""An ONNX model comes in: a small network of convolutions with attention, made here by onnx.helper.

python examples/onnx_model.py [MODEL.onnx]

It is imported, compiled and compared with onnx's own reference evaluator, on the GPU where there is
one and by playback on the CPU elsewhere.  It needs ``pip install polyc[onnx]``.
"""

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import polyc
from polyc.runtime import driver

DEVICE = None if driver.available() else "cpu"
WIDTH, HEADS = 16, 2


def network(onnx: Any) -> Any:
    """[batch, 3, 8, 8] images as 10 scores: patches, a layer of attention, and a mean."""
    helper, numpy_helper, real = onnx.helper, onnx.numpy_helper, onnx.TensorProto.FLOAT
    dice = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> Any:
        numbers = dice.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if shape[1:] else 1)
        return numpy_helper.from_array(numbers.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "patch", "patch.bias"], ["p"], strides=[2, 2]),
        helper.make_node("Gelu", ["p"], ["g"]),
        # [batch, WIDTH, 4, 4] as [batch, 16, WIDTH], by shape arithmetic on the open batch.
        helper.make_node("Shape", ["g"], ["sizes"], end=2),
        helper.make_node("Concat", ["sizes", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["g", "flat"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        helper.make_node("LayerNormalization", ["t", "scale", "shift"], ["n"], axis=-1),
        *(helper.make_node("MatMul", ["n", one], [one + ".out"]) for one in "qkv"),
        helper.make_node(
            "Attention",
            ["q.out", "k.out", "v.out"],
            ["a"],
            q_num_heads=HEADS,
            kv_num_heads=HEADS,
        ),
        helper.make_node("Add", ["a", "t"], ["s"]),
        helper.make_node("ReduceMean", ["s", "tokens"], ["m"], keepdims=0),
        helper.make_node("Gemm", ["m", "head", "head.bias"], ["scores"]),
    ]
    constants = [
        weight("patch", WIDTH, 3, 2, 2),
        weight("patch.bias", WIDTH),
        numpy_helper.from_array(np.array([-1]), "rest"),
        numpy_helper.from_array(np.ones(WIDTH, np.float32), "scale"),
        numpy_helper.from_array(np.zeros(WIDTH, np.float32), "shift"),
        *(weight(one, WIDTH, WIDTH) for one in "qkv"),
        numpy_helper.from_array(np.array([1]), "tokens"),
        weight("head", WIDTH, 10),
        weight("head.bias", 10),
    ]
    graph = helper.make_graph(
        nodes,
        "small_network",
        [helper.make_tensor_value_info("image", real, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", real, ["batch", 10])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def main() -> None:
    """Import, compile, run and compare."""
    try:
        onnx: Any = import_module("onnx")
        evaluator: Any = import_module("onnx.reference").ReferenceEvaluator
    except ImportError:
        print("onnx is not installed: pip install polyc[onnx]")
        return
    if len(sys.argv) > 1:
        imported = polyc.from_onnx(sys.argv[1])
        print(imported.text)
        return
    model = network(onnx)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "small_network.onnx")
        onnx.save(model, str(path))
        imported = polyc.from_onnx(path)
    kept = sum(array.size for array in imported.parameters.values())
    ops = sum(1 for _ in imported.graph.body.block.ops) - 1
    print(f"{len(model.graph.node)} nodes are {ops} ops, {kept} numbers are parameters")
    program = polyc.compile(imported, device=DEVICE)
    print("on the GPU" if DEVICE is None else "no GPU: by playback on the CPU")
    for batch in (1, 5):
        image = np.random.default_rng(batch).standard_normal((batch, 3, 8, 8)).astype(np.float32)
        scores = np.asarray(program(image))
        (right,) = evaluator(model).run(None, {"image": image})
        far = np.abs(scores - right).max() / np.abs(right).max()
        print(f"batch {batch}: scores {scores.shape}, off by {far:.0e}")
        assert far < 1e-3


if __name__ == "__main__":
    main()
