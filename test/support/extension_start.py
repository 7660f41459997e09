"""A process with the extension of the compiled backend: see test_backends.

    python -m polyc.test.support.extension_start

It prints JSON: for each way of calling, how many calls went to Python, and were launched.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from polyc.runtime import driver, torch_layout
from polyc.test.support.fake_cuda import primary
from polyc.test.support.fast_extension import LAYOUT, FakeCudaInC, FakeTorchInC, built

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

CALLS = 6


def main() -> None:
    """Call in each way."""
    sys.modules["polyc_fast"] = built()
    made = FakeCudaInC(defaultdict(lambda: 1))
    driver._library = lambda: made  # pyright: ignore
    torch = sys.modules["torch"] = FakeTorchInC(made, laid_out=True)
    torch_layout._known = torch, LAYOUT  # pyright: ignore
    import polyc
    from polyc.tools.jit.compiled import Compiled
    from polyc.tools.jit.function import Jit

    @polyc.jit
    def added(x: polyc.Tensor["M", "K", "f32"], y: polyc.Tensor["M", "K", "f32"]):  # noqa: F821
        return x + y

    @polyc.jit
    def scaled(x, *, by=2.0):
        return [x * by]

    @polyc.jit
    def both(x: polyc.Tensor["M", "K", "f32"]):  # noqa: F821
        return {"twice": x + x}

    asked = {"Jit": 0, "Compiled": 0}
    for kind in (Jit, Compiled):
        slow = kind.called

        def called(self: Any, *args: Any, kind: Any = kind, slow: Any = slow, **named: Any) -> Any:
            asked[kind.__name__] += 1
            return slow(self, *args, **named)

        kind.called = called
    made.stack[:] = [primary(0)]  # as PyTorch leaves it
    x, y, z = (torch.zeros(2, 8) for _ in range(3))
    compiled = added.compiled()
    ways: dict[str, Callable[[], Any]] = {
        "jit, out": lambda: added(x, y, out=z) is z,
        "jit": lambda: added(x, y).shape == (2, 8),
        "compiled, out": lambda: compiled(x, y, out=z) is z,
        "compiled": lambda: compiled(x, y).shape == (2, 8),
        "any sizes": lambda: scaled(x)[0].shape == (2, 8),
        "a constant": lambda: scaled(x, by=3.0)[0].shape == (2, 8),
        "other sizes": lambda: added(x[0], x[1], out=x[2]) is x[2],
        "a dictionary": lambda: both(x)["twice"].shape == (2, 8),
    }
    found: dict[str, Any] = {}
    for name, call in ways.items():
        if name == "other sizes":
            x = [torch.zeros(5, 8) for _ in range(3)]
        elif isinstance(x, list):
            x = torch.zeros(2, 8)
        before, launches = sum(asked.values()), len(made.launches)
        right = all(call() for _ in range(CALLS))
        found[name] = [right, sum(asked.values()) - before, len(made.launches) - launches]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
