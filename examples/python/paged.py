"""For who serves a model: attention over a cache in pages, which a table of a sequence's own picks.

    python examples/python/paged.py

Keys and values are read in the pages where they lie: no sequence's are gathered into memory first.
Without a GPU it is played back on the CPU.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import numpy as np

import polyc
from polyc.runtime import driver

DEVICE = None if driver.available() else "cpu"
PAGE = 16


@polyc.jit(device=DEVICE)
def decode(
    q: polyc.Tensor["B", 4, 1, 64, "f16"],
    keys: polyc.Tensor["P", PAGE, 2, 64, "f16"],
    values: polyc.Tensor["P", PAGE, 2, 64, "f16"],
    table: polyc.Tensor["B", "J", "i32"],
    length: polyc.Tensor["B", "i32"],
):
    """One query a sequence, of four heads of which two share keys; ``length`` tokens are seen."""

    def of_sequences(pool):
        pages = polyc.take(pool, table)
        return pages.reshape(pages.shape[0], -1, 2, 64).permute(0, 2, 1, 3)

    k, v = of_sequences(keys), of_sequences(values)
    seen = polyc.arange(k.shape[2], "i32") < length.reshape(-1, 1, 1, 1)
    return polyc.attention(q, k, v, seen)


def main():
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, 1, 64)).astype(np.float16)
    pool = rng.standard_normal((2, 9, PAGE, 2, 64)).astype(np.float16)
    table = np.array([[7, 2, -1], [4, 0, 8]], np.int32)
    length = np.array([20, 48], np.int32)
    found = decode(q, *pool, table, length)
    print(f"attention: {found.shape} of {length.tolist()} tokens in pages of {PAGE}")
    for b, tokens in enumerate(length):
        k, v = (one[table[b]].reshape(-1, 2, 64)[:tokens].astype(np.float32) for one in pool)
        for head in range(4):
            scores = k[:, head // 2] @ q[b, head, 0].astype(np.float32) / 8
            weights = np.exp(scores - scores.max())
            right = weights @ v[:, head // 2] / weights.sum()
            assert np.abs(right - found[b, head, 0]).max() < 4e-3
    print("as NumPy has it, sequence by sequence")


if __name__ == "__main__":
    main()
