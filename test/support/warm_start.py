"""Functions, a text and a file that a process calls and a later one calls again: see test_warm.

    python -m polyc.test.support.warm_start text.mlir

It prints JSON: what of the compiler was imported, and the kernels that were launched.
"""

import json
import sys
from typing import Any

import numpy as np

import polyc
import polyc.tile as T
from polyc.runtime import driver
from polyc.test.support.fake_cuda import FakeCuda

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

COMPILER = ("xdsl", "islpy", "polyc.passes", "polyc.lowering", "importlib.metadata")


def shifted(x: Any) -> Any:
    return x + 1.0


PARAMETERS = """
  %a = frontend.parameter "a" : !frontend.tensor<[8], f32>
  %b = frontend.parameter "b" : !frontend.tensor<[8], f32>
  %c = frontend.elementwise mul %a, %b
      : (!frontend.tensor<[8], f32>, !frontend.tensor<[8], f32>) -> !frontend.tensor<[8], f32>
  %p = frontend.elementwise add %x, %c
      : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[8], f32>) -> !frontend.tensor<[M, K], f32>
  %0 ="""


@polyc.jit(assume="N mod 8 == 0")
def values(x: polyc.Tensor["M", "N", "f32"], *, by=2.0):  # noqa: F821
    return {"y": shifted(x) * by}


@polyc.jit
def tiles(x: T.Tensor["N", T.f32], y: T.Out["N", T.f32], *, by=2.0):  # noqa: F821
    n = x.shape[0]
    with T.kernel(threads=64, grid=[T.ceildiv(n, 64)]):
        part = T.alloc_fragment((64,), T.f32)
        T.copy(x[T.block_id() * 64], part)
        with T.parallel(64) as i:
            part[i] = part[i] * by
        T.copy(part, y[T.block_id() * 64])


def main(path: str) -> None:
    made = FakeCuda()
    driver._library = lambda: made  # pyright: ignore
    x = np.zeros((3, 8), np.float32)
    shapes = [values(x)["y"].shape, tiles(x[0]).shape]
    with open(path) as file:
        text = file.read()
    for source in (text, path):
        shapes.append(polyc.compile(source)(x).shape)
        shapes += [np.shape(one) for one in polyc.load(source, "sm_90a").run([x])]
    bound = (
        text.replace("%x, %x", "%x, %p").replace("  %0 =", PARAMETERS).replace("[M, K]", "[M, 8]")
    )
    job = polyc.load(bound, "sm_90a", params={"a": x[0], "b": x[1]})
    shapes += [np.shape(one) for one in job.run([x])]
    found = {
        "imported": [name for name in COMPILER if name in sys.modules],
        "launches": len(made.launches),
        "shapes": shapes,
        "retraced": [values.retraced, tiles.retraced],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
