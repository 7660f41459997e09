"""Frontend graphs in a few lines of Python: what models are drawn with in tests and benchmarks."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, f16
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import GraphOp, tensor, tensor_of

Size = Dim | int | str


def dim(size: Size) -> Dim:
    """A size, given as itself, a number or the name of a symbol."""
    if isinstance(size, Dim):
        return size
    return Dim.const(size) if isinstance(size, int) else Dim.sym(size)


class Sketch:
    """A graph that grows op by op; values are in ``element`` unless a method says otherwise."""

    def __init__(self, name: str, element: Attribute = f16) -> None:
        self.name, self.element = name, element
        self.block = GraphOp(name, [], [])
        self.names: list[str] = []

    # Inputs and ops

    def input(self, name: str, *shape: Size, element: Attribute | None = None) -> SSAValue:
        """One more tensor of the signature."""
        kind = tensor([dim(s) for s in shape], element or self.element)
        body = self.block.body.block
        found = body.insert_arg(kind, len(body.args))
        found.name_hint = name
        self.names.append(name)
        return found

    def add(self, op: Operation) -> SSAValue:
        self.block.body.block.add_op(op)
        return op.results[0]

    def fn(self, name: str, *args: SSAValue) -> SSAValue:
        """An elementwise function of one or two tensors."""
        return self.add(frontend.ElementwiseOp(name, args))

    def number(self, value: float, element: Attribute | None = None) -> SSAValue:
        """A constant, of the graph's type where no other is asked for."""
        return self.add(frontend.ConstantOp(value, tensor((), element or self.element)))

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        return self.add(frontend.CastOp(x, element))

    def gemm(
        self, a: SSAValue, b: SSAValue, *, turned: bool = False, element: Attribute | None = None
    ) -> SSAValue:
        """A product; ``turned`` where the second factor is stored as [n, k]."""
        left, right = tensor_of(a), tensor_of(b)
        batch = max((left.dims[:-2], right.dims[:-2]), key=len)
        shape = (*batch, left.dims[-2], right.dims[-2 if turned else -1])
        kind = tensor(shape, element or left.element_type)
        return self.add(frontend.GemmOp(a, b, transpose_b=turned, result_type=kind))

    def linear(self, x: SSAValue, name: str, size: Size, *, bias: bool = False) -> SSAValue:
        """A product with a weight [size, features], as PyTorch's ``Linear`` stores it."""
        made = self.gemm(x, self.input(name, size, tensor_of(x).dims[-1]), turned=True)
        return self.fn("add", made, self.input(f"{name}_bias", size)) if bias else made

    def rms_norm(self, x: SSAValue, name: str) -> SSAValue:
        axis = tensor_of(x).rank - 1
        weight = self.input(name, tensor_of(x).dims[-1])
        return self.add(frontend.RmsNormOp(x, [axis], 1e-5, weight=weight))

    def layer_norm(self, x: SSAValue, name: str) -> SSAValue:
        axis, size = tensor_of(x).rank - 1, tensor_of(x).dims[-1]
        weight, bias = self.input(name, size), self.input(f"{name}_bias", size)
        return self.add(frontend.LayerNormOp(x, [axis], 1e-5, weight=weight, bias=bias))

    # Movements

    def reshape(self, x: SSAValue, *shape: Size) -> SSAValue:
        return self.add(frontend.ReshapeOp(x, [dim(s) for s in shape]))

    def permute(self, x: SSAValue, *order: int) -> SSAValue:
        return self.add(frontend.PermuteOp(x, order))

    def cut(self, x: SSAValue, axis: int, start: Size, stop: Size) -> SSAValue:
        """A part of one axis."""
        dims = list(tensor_of(x).dims)
        low, high = [Dim.const(0)] * len(dims), list(dims)
        low[axis], high[axis] = dim(start), dim(stop)
        return self.add(frontend.SliceOp(x, low, high, [1] * len(dims)))

    def concat(self, axis: int, *parts: SSAValue) -> SSAValue:
        return self.add(frontend.ConcatOp(parts, axis))

    def reduce(self, name: str, x: SSAValue, *axes: int, keep: bool = False) -> SSAValue:
        return self.add(frontend.ReduceOp(name, x, axes, keepdims=keep))

    def softmax(self, x: SSAValue) -> SSAValue:
        return self.add(frontend.SoftmaxOp(x, [tensor_of(x).rank - 1]))

    # The end

    def done(self, **outputs: SSAValue) -> ModuleOp:
        """The graph with its outputs, by name."""
        self.block.body.block.add_op(frontend.OutputOp(list(outputs.values())))
        body = self.block.detach_region(self.block.body)
        kinds = [a.type for a in body.block.args]
        types = [v.type for v in outputs.values()]
        graph = GraphOp(
            self.name, kinds, types, body, arg_names=self.names, res_names=list(outputs)
        )
        module = ModuleOp([graph])
        module.verify()
        return module
