"""For who works on compilers: a graph op by op, through the layers, with a pattern of your own.

python examples/python/compiler.py
"""

from xdsl.dialects.builtin import f16
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

import polyc
from polyc.dialects.frontend import ElementwiseOp, tensor
from polyc.rewriting.driver import rewrite


class SquareOfRoot(RewritePattern):
    """``sqrt(x) * sqrt(x)`` is ``x`` where ``x`` is 0 or more: below 0 it is NaN (finite-only)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseOp, rewriter: PatternRewriter) -> None:
        """Rewrite one product."""
        if op.function != "mul" or op.args[0] is not op.args[1]:
            return
        root = op.args[0].owner
        if isinstance(root, ElementwiseOp) and root.function == "sqrt":
            rewriter.replace(op, [], [root.args[0]])


def main() -> None:
    """Build a graph, rewrite it, and look at what it becomes."""
    build = polyc.Builder("norm", {"x": tensor(["M", "N"], f16)})
    (x,) = build.inputs
    root = build.elementwise("sqrt", x)
    square = build.elementwise("mul", root, root)
    module = build.finish({"y": build.softmax(square, -1)})
    rewrite(module, [SquareOfRoot()])
    found = polyc.compile(module, "sm_80")
    for layer in ("frontend", "tiny", "region"):
        ops = sum(1 for _ in found.compiled_module(layer).walk())
        print(f"{layer}: {ops} ops")


if __name__ == "__main__":
    main()
