"""A model with its weights in a file: the program binds them once, and calls take data alone.

python examples/python/parameters.py
"""

import tempfile
from pathlib import Path

import numpy as np

import polyc
from polyc.runtime import driver

TEXT = """
frontend.graph @layer(%x: !frontend.tensor<[M, 64], f16>) -> (y: !frontend.tensor<[M, 16], f16>) {
  %w = frontend.parameter "layer.weight" : !frontend.tensor<[64, 16], f16>
  %b = frontend.parameter "layer.bias" : !frontend.tensor<[16], f16>
  %0 = frontend.gemm %x, %w {acc = f32}
      : (!frontend.tensor<[M, 64], f16>, !frontend.tensor<[64, 16], f16>) -> !frontend.tensor<[M, 16], f16>
  %1 = frontend.elementwise add %0, %b
      : (!frontend.tensor<[M, 16], f16>, !frontend.tensor<[16], f16>) -> !frontend.tensor<[M, 16], f16>
  frontend.output %1 : !frontend.tensor<[M, 16], f16>
}
"""  # noqa: E501

DEVICE = None if driver.available() else "cpu"


def main() -> None:
    """Write a file, compile with it, and with arrays that a function reads."""
    dice = np.random.default_rng(0)
    weight = dice.standard_normal((64, 16)).astype(np.float16)
    bias = dice.standard_normal(16).astype(np.float16)
    x = dice.standard_normal((3, 64)).astype(np.float16)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layer.safetensors")
        polyc.write_params(path, {"layer.weight": weight, "layer.bias": bias})
        print(", ".join(f"{name} {a.shape}" for name, a in polyc.read_params(path).items()))
        layer = polyc.compile(TEXT, params=path, device=DEVICE)
        y = layer(x)
        try:
            polyc.compile(TEXT, params={"layer.weight": bias}, device=DEVICE)
        except polyc.PolycError as error:
            print(error)

    @polyc.jit(device=DEVICE)
    def same(x: polyc.Tensor["M", 64, "f16"]) -> polyc.Value:
        return x @ weight + bias

    print(layer)
    print("the same:", np.array_equal(y, same(x)))


if __name__ == "__main__":
    main()
