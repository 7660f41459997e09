"""For who has a model: a block of a transformer as a Python function, called on tensors.

    python examples/python/model.py

Without a GPU it is played back on the CPU.  One compilation serves every batch, length and width.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import numpy as np

import polyc
from polyc.runtime import driver

DEVICE = None if driver.available() else "cpu"


@polyc.jit(device=DEVICE)
def block(
    x: polyc.Tensor["T", "D", "f16"],
    norm: polyc.Tensor["D", "f16"],
    up: polyc.Tensor["F", "D", "f16"],
    down: polyc.Tensor["D", "F", "f16"],
    *,
    eps=1e-5,
):
    """A residual block: RMSNorm, a product, GELU, and a product back."""
    h = polyc.rms_norm(x, norm, eps=eps)
    return x + polyc.linear(polyc.gelu(polyc.linear(h, up)), down)


@polyc.jit(device=DEVICE)
def attend(
    q: polyc.Tensor["B", 4, "M", 32, "f16"],
    k: polyc.Tensor["B", 2, "N", 32, "f16"],
    v: polyc.Tensor["B", 2, "N", 32, "f16"],
):
    """Causal attention of the last M positions, two query heads a key head."""
    return polyc.attention(q, k, v, causal=True, offset=k.shape[2] - q.shape[2])


def main():
    rng = np.random.default_rng(0)

    def some(*shape):
        return (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float16)

    for tokens in (1, 5):
        y = block(some(tokens, 48), some(48), some(96, 48), some(48, 96))
        print(f"block: {tokens} tokens, largest {float(np.abs(y).max()):.1f}")
    out = np.empty((2, 4, 3, 32), np.float16)
    attend(some(2, 4, 3, 32), some(2, 2, 7, 32), some(2, 2, 7, 32), out=out)
    print(f"attention: {out.shape}")
    try:
        block(some(5, 48), some(48), some(96, 40), some(48, 96))
    except polyc.PolycError as error:
        print(error)


if __name__ == "__main__":
    main()
