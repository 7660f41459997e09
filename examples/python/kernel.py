"""For who writes kernels: a function over tiles, with its tile's size as a constant.

python examples/python/kernel.py
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import numpy as np

import polyc
import polyc.tile as T
from polyc.runtime import driver

M, N = T.sizes("M", "N")


@polyc.jit(device=None if driver.available() else "cpu", arch="sm_80")
def scaled(x: T.Tensor[M, N, T.f32], y: T.Out[M, N, T.f32], *, by, width=32):
    """Each block takes 16 rows of ``width`` columns into registers and back."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 16), T.ceildiv(N, width)]):
        block = T.block_id()
        across = T.ceildiv(N, width)
        m, n = block // across, block % across
        tile = T.alloc_fragment((16, width), T.f32)
        T.copy(x[m * 16, n * width], tile)
        with T.parallel(16, width) as (i, j):
            tile[i, j] = tile[i, j] * by
        T.copy(tile, y[m * 16, n * width])


def main():
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    print(scaled(x, by=2.0)[4, 11], scaled(x, by=3.0, width=64)[4, 11])
    for name, used in polyc.compile(scaled, constants={"by": 2.0}).resources.items():
        print(f"kernel {name}: {used.registers > 0}, {used.spill_bytes} bytes spilled")


if __name__ == "__main__":
    main()
