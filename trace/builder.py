"""A ``frontend.graph`` that grows op by op, typed, folded and verified as it grows.

What traces Python functions and what imports models builds through this: a method an op, with
shapes inferred, and with locations that ``at`` tells.  Numbers that are known are folded
(``folding.py``), movements that move nothing are left out, and a transpose that a product can read
through becomes its flag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import LocationAttr, ModuleOp, f32, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim, Shape, shape_text
from polyc.dialects.common.elements import Number, is_integer
from polyc.dialects.common.signature import default_output_names
from polyc.dialects.common.sizes import divided, product
from polyc.dialects.frontend import GraphOp, TensorType, broadcast, tensor, tensor_of
from polyc.trace.captured import Captured, kind_of
from polyc.trace.folding import folded, is_neutral, to_f32
from polyc.trace.source import here


class Builder:
    """A graph under construction, with its inputs from the start.

    ``inputs`` are names and types in the order of the signature, ``facts`` what is assumed of their
    symbols.  ``at`` says where the user's program stands; the default is the calling Python line.
    Every method raises VerifyException, as the dialect does, or PolycError.
    """

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, TensorType],
        facts: Sequence[Assumption] = (),
        at: Callable[[], LocationAttr] = here,
    ) -> None:
        self.name, self.facts, self.at = name, tuple(facts), at
        self._kinds = list(inputs.values())
        self._names = list(inputs)
        # Around the block, so that ops find symbols and assumptions while they are built.
        self.graph = GraphOp(
            name, self._kinds, [], arg_names=self._names, assumptions=self.facts, location=at()
        )
        # An op is verified while another one ends the block.
        self._end = frontend.OutputOp([])
        self.graph.body.block.add_op(self._end)
        self._constants: dict[tuple[str, Attribute], SSAValue] = {}
        self._parameters: dict[str, SSAValue] = {}
        self.captured = Captured()
        """What was read that has numbers, and stands behind parameters."""
        self.turned: dict[SSAValue, tuple[SSAValue, int]] = {}
        """Values that are others turned around along an axis, where it was said that they are."""
        self.precision_of_products: str | None = None
        self.precision_of_convolutions: str | None = None
        """How precise products of f32 are where nothing else is said of one."""

    @property
    def inputs(self) -> tuple[SSAValue, ...]:
        """The values of the inputs."""
        return tuple(self.graph.body.block.args)

    @property
    def inside(self) -> Operation:
        """An op of the graph, around which sizes are compared under its assumptions."""
        return self._end

    def add(self, op: Operation) -> SSAValue:
        """Append an op, verified; its first result."""
        op.location = self.at()
        self.graph.body.block.insert_op_before(op, self._end)
        try:
            op.verify(verify_nested_ops=False)
        except BaseException:
            op.detach()
            op.erase()
            raise
        return op.results[0]

    # Numbers and functions

    def constant(self, value: Number, element: Attribute = f32) -> SSAValue:
        """A scalar of nominal type ``element``; its value is an f32, or an integer."""
        number = int(value) if is_integer(element) else to_f32(float(value))
        key = repr(number), element
        if (known := self._constants.get(key)) is None:
            known = self.add(frontend.ConstantOp(number, tensor((), element)))
            self._constants[key] = known
        return known

    def parameter(self, entry: str, kind: TensorType) -> SSAValue:
        """An entry of a parameter file, which has one type wherever it is read (S12.2)."""
        if (known := self._parameters.get(entry)) is None or known.type != kind:
            known = self.add(frontend.ParameterOp(entry, kind))
            self._parameters.setdefault(entry, known)
        return known

    def tensor(self, given: object, name: str | None = None) -> SSAValue:
        """The parameter that stands for a tensor with numbers, which ``captured`` has."""
        entry = self.captured.name(given, name, self.entries)
        return self.parameter(entry, kind_of(given))

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self._parameters)

    @staticmethod
    def number(value: SSAValue) -> float | None:
        """The real number that a value is known to be."""
        op = value.owner
        number = op.number if isinstance(op, frontend.ConstantOp) else None
        return None if isinstance(number, int) else number

    def elementwise(self, fn: str, *args: SSAValue) -> SSAValue:
        """A function of one or two tensors, broadcast right-aligned."""
        numbers = [self.number(a) for a in args]
        known = [n for n in numbers if n is not None]
        fault = frontend.ElementwiseOp.fault(fn, len(args))
        if fault is None and len(known) == len(args):
            kinds = {tensor_of(a).element_type for a in args}
            if len(kinds) == 1 and (value := folded(fn, known)) is not None:
                return self.constant(value, kinds.pop())
        elif fault is None and len(args) == 2 and known:
            position = 0 if numbers[0] is not None else 1
            other = args[1 - position]
            same = tensor_of(other).element_type == tensor_of(args[position]).element_type
            if same and is_neutral(fn, position, known[0]):
                return other
        return self.add(frontend.ElementwiseOp(fn, args))

    def compare(self, fn: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """A relation of two tensors, a condition."""
        return self.add(frontend.CompareOp(fn, a, b))

    def classify(self, fn: str, x: SSAValue) -> SSAValue:
        """Whether elements are finite, infinite or NaN, by ``isfinite``, ``isinf``, ``isnan``."""
        return self.add(frontend.ClassifyOp(fn, x))

    def select(self, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        """``then`` where the condition holds, else ``otherwise``."""
        return self.add(frontend.SelectOp(condition, then, otherwise))

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        """A conversion, which rounds also where the type stays: values are f32 until then."""
        kind = tensor_of(x).element_type
        if element == kind and (element in (f32, i1) or is_integer(element)):
            return x
        return self.add(frontend.CastOp(x, element))

    # Products

    def gemm(
        self,
        a: SSAValue,
        b: SSAValue,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        element: Attribute | None = None,
        precision: str | None = None,
    ) -> SSAValue:
        """The matrix product of the last two axes; those before broadcast."""
        if self._is_transpose(a):
            a, transpose_a = cast("Operation", a.owner).operands[0], not transpose_a
        if self._is_transpose(b):
            b, transpose_b = cast("Operation", b.owner).operands[0], not transpose_b
        left, right = tensor_of(a), tensor_of(b)
        if precision is None and left.element_type == f32:
            precision = self.precision_of_products
        kind = None
        if left.rank >= 2 and right.rank >= 2:
            batch = broadcast((left.dims[:-2], right.dims[:-2]), self.inside)
            row = left.dims[-1 if transpose_a else -2]
            column = right.dims[-2 if transpose_b else -1]
            shape = (*(() if batch is None else batch), row, column)
            kind = tensor(shape, element or left.element_type)
        op = frontend.GemmOp(
            a,
            b,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            precision=precision,
            result_type=kind,
        )
        return self.add(op)

    def conv(
        self,
        x: SSAValue,
        w: SSAValue,
        count: int,
        *,
        layout: str | None = None,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: Dim | int = 1,
        precision: str | None = None,
    ) -> SSAValue:
        """A convolution over ``count`` axes; padding is before and after each of them in turn."""
        kinds = {1: frontend.Conv1dOp, 2: frontend.Conv2dOp, 3: frontend.Conv3dOp}
        kind = kinds[count]
        precision = precision or self._of_convolution(x)
        if layout is not None and (fault := kind.fault(layout)) is not None:
            raise PolycError("BadArgument", fault, self.at())
        return self.add(
            kind(
                x,
                w,
                layout=layout,
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
                precision=precision,
            )
        )

    def _of_convolution(self, x: SSAValue) -> str | None:
        """The precision of a convolution of which nothing is said."""
        return self.precision_of_convolutions if tensor_of(x).element_type == f32 else None

    def conv_transpose(
        self,
        x: SSAValue,
        w: SSAValue,
        count: int,
        *,
        layout: str | None = None,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: Dim | int = 1,
        precision: str | None = None,
    ) -> SSAValue:
        """A transposed convolution over ``count`` axes; padding is what is cut off at each end."""
        kinds = {
            1: frontend.ConvTranspose1dOp,
            2: frontend.ConvTranspose2dOp,
            3: frontend.ConvTranspose3dOp,
        }
        kind = kinds[count]
        precision = precision or self._of_convolution(x)
        if layout is not None and (fault := kind.fault(layout)) is not None:
            raise PolycError("BadArgument", fault, self.at())
        return self.add(
            kind(
                x,
                w,
                layout=layout,
                stride=stride,
                padding=padding,
                output_padding=output_padding,
                dilation=dilation,
                groups=groups,
                precision=precision,
            )
        )

    def conv2d(
        self,
        x: SSAValue,
        w: SSAValue,
        *,
        layout: str = "nchw",
        stride: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilation: Sequence[int] = (1, 1),
        groups: Dim | int = 1,
        precision: str | None = None,
    ) -> SSAValue:
        """A convolution over two axes; padding is before and after H, before and after W."""
        return self.conv(
            x,
            w,
            2,
            layout=layout,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            precision=precision,
        )

    def attention(
        self,
        q: SSAValue,
        k: SSAValue,
        v: SSAValue,
        masks: Sequence[SSAValue] = (),
        *,
        scale: float | None = None,
        cap: float | None = None,
        causal: bool = False,
        window: tuple[Dim | int, Dim | int] | None = None,
        offset: Dim | int | None = None,
        lse: bool = False,
        precision: str | None = None,
    ) -> tuple[SSAValue, ...]:
        """Attention; with ``lse`` also the log of the sum of the weights' exponentials."""
        if precision is None and tensor_of(q).element_type == f32:
            precision = self.precision_of_products
        made = frontend.AttentionOp(
            q,
            k,
            v,
            masks,
            scale=scale,
            cap=cap,
            causal=causal,
            window=window,
            offset=offset,
            lse=lse,
            precision=precision,
        )
        self.add(made)
        return tuple(made.results)

    # Along axes

    def axes(self, x: SSAValue, axes: int | Sequence[int] | None) -> list[int]:
        """Axes in increasing order; negative ones count from the end, None is all of them."""
        rank = tensor_of(x).rank
        if axes is None:
            return list(range(rank))
        listed = [axes] if isinstance(axes, int) else list(axes)
        return sorted(self.axis(x, axis) for axis in listed)

    def axis(self, x: SSAValue, axis: int, room: int = 0) -> int:
        """One axis, from 0 on; ``room`` more than there are may be named."""
        rank = tensor_of(x).rank + room
        if not -rank <= axis < rank:
            raise PolycError(
                "BadArgument",
                f"axis {axis} is none of {shape_text(tensor_of(x).dims)}, which has {rank - room}",
                self.at(),
            )
        return axis % rank

    def reduce(
        self, fn: str, x: SSAValue, axes: int | Sequence[int] | None, *, keepdims: bool = False
    ) -> SSAValue:
        """Sum, product, max, min, mean, any or all over axes; of a scalar, that is itself."""
        found = self.axes(x, axes)
        if not found:
            return x
        return self.add(frontend.ReduceOp(fn, x, found, keepdims=keepdims))

    def scan(
        self, fn: str, x: SSAValue, axis: int, *, reverse: bool = False, exclusive: bool = False
    ) -> SSAValue:
        """A function of the elements along an axis up to each one."""
        if not tensor_of(x).rank:
            raise PolycError(
                "BadArgument", "a scan goes along an axis, and a scalar has none", self.at()
            )
        at = self.axis(x, axis)
        return self.add(frontend.ScanOp(fn, x, at, reverse=reverse, exclusive=exclusive))

    def pool(
        self,
        fn: str,
        x: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> SSAValue:
        """A function of each window along axes; padding is before and after each axis in turn."""
        if (fault := frontend.PoolOp.fault(fn)) is not None:
            raise PolycError("BadArgument", fault, self.at())
        return self.add(
            frontend.PoolOp(
                fn,
                x,
                [self.axis(x, axis) for axis in axes],
                size,
                stride=stride,
                padding=padding,
                dilation=dilation,
                ceil_mode=ceil_mode,
                count_include_pad=count_include_pad,
            )
        )

    def adaptive_pool(
        self, fn: str, x: SSAValue, axes: Sequence[int], counts: Sequence[int]
    ) -> SSAValue:
        """A function of each of so many windows along axes of known sizes."""
        if (fault := frontend.AdaptivePoolOp.fault(fn)) is not None:
            raise PolycError("BadArgument", fault, self.at())
        return self.add(frontend.AdaptivePoolOp(fn, x, [self.axis(x, a) for a in axes], counts))

    def arg_pool(
        self,
        fn: str,
        x: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        ceil_mode: bool = False,
        whole: bool = False,
        element: Attribute = i64,
    ) -> SSAValue:
        """Where the largest or smallest element of each window is, as of ``pool``."""
        if (fault := frontend.ArgPoolOp.fault(fn)) is not None:
            raise PolycError("BadArgument", fault, self.at())
        return self.add(
            frontend.ArgPoolOp(
                fn,
                x,
                [self.axis(x, axis) for axis in axes],
                size,
                stride=stride,
                padding=padding,
                dilation=dilation,
                ceil_mode=ceil_mode,
                whole=whole,
                element=element,
            )
        )

    def arg_reduce(
        self,
        fn: str,
        x: SSAValue,
        axis: int | None,
        *,
        keepdims: bool = False,
        last: bool = False,
        element: Attribute = i64,
    ) -> SSAValue:
        """Where the largest or smallest element is along an axis, or among all without one."""
        rank = tensor_of(x).rank
        at = 0 if axis is None else self.axis(x, axis)
        if axis is None:
            x = self.reshape(x, [product(tensor_of(x).dims)])
        op = frontend.ArgReduceOp(
            fn, x, at, keepdims=keepdims and axis is not None, last=last, element=element
        )
        found = self.add(op)
        return self.reshape(found, [Dim.const(1)] * rank) if axis is None and keepdims else found

    def sort(
        self,
        x: SSAValue,
        axis: int,
        first: Dim | None = None,
        *,
        descending: bool = False,
        element: Attribute = i64,
    ) -> tuple[SSAValue, SSAValue]:
        """The elements along an axis in order, all or the ``first`` ones, and their places."""
        made = frontend.SortOp(x, self.axis(x, axis), first, descending=descending, element=element)
        self.add(made)
        return made.values, made.places

    def resize(
        self,
        x: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        *,
        mode: str = "nearest",
        coordinates: str = "half_pixel",
        rounding: str | None = None,
        coefficient: float | None = None,
        exclude_outside: bool = False,
    ) -> SSAValue:
        """The elements of a grid of other sizes along axes, or what lies between them."""
        named = {"mode": mode, "coordinates": coordinates}
        for what, name in (named if rounding is None else {**named, "rounding": rounding}).items():
            if (fault := frontend.ResizeOp.fault(what, name)) is not None:
                raise PolycError("BadArgument", fault, self.at())
        where = [self.axis(x, axis) for axis in axes]
        return self.add(
            frontend.ResizeOp(
                x,
                where,
                size,
                mode=mode,
                coordinates=coordinates,
                rounding=rounding,
                coefficient=coefficient,
                exclude_outside=exclude_outside,
            )
        )

    def grid_sample(
        self,
        x: SSAValue,
        grid: SSAValue,
        *,
        mode: str = "linear",
        padding: str = "zeros",
        align_corners: bool = False,
    ) -> SSAValue:
        """What lies at the places that a grid has coordinates of."""
        for what, name in (("mode", mode), ("padding", padding)):
            if (fault := frontend.GridSampleOp.fault(what, name)) is not None:
                raise PolycError("BadArgument", fault, self.at())
        return self.add(
            frontend.GridSampleOp(x, grid, mode=mode, padding=padding, align_corners=align_corners)
        )

    def gather(
        self,
        kind: type[frontend.GatherOp | frontend.GatherElementsOp],
        x: SSAValue,
        indices: SSAValue,
        axis: int,
        fill: Number | None = None,
        *,
        from_end: bool = True,
        trap: bool = False,
    ) -> SSAValue:
        """Elements at indices along an axis; outside of it ``fill``, or the nearest one."""
        at = self.axis(x, axis)
        if (fault := kind.fault(tensor_of(x).dims, tensor_of(indices).dims, at)) is not None:
            raise PolycError("RankMismatch", fault, self.at())
        return self.add(kind(x, indices, at, fill, from_end=from_end, trap=trap))

    def gather_nd(
        self,
        x: SSAValue,
        indices: SSAValue,
        batch: int,
        fill: Number | None = None,
        *,
        trap: bool = False,
    ) -> SSAValue:
        """Elements or blocks at tuples of indices, behind ``batch`` axes that both have."""
        kind, dims = frontend.GatherNdOp, tensor_of(x).dims
        if (fault := kind.fault(dims, tensor_of(indices).dims, batch)) is not None:
            raise PolycError("RankMismatch", fault, self.at())
        return self.add(kind(x, indices, batch, fill, from_end=True, trap=trap))

    def scatter(
        self,
        kind: type[frontend.ScatterOp | frontend.ScatterElementsOp],
        fn: str,
        x: SSAValue,
        indices: SSAValue,
        updates: SSAValue,
        axis: int,
        *,
        trap: bool = False,
    ) -> SSAValue:
        """Updates combined into elements at indices along an axis."""
        at = self.axis(x, axis)
        self._check_scatter(kind, fn, x, indices, at)
        return self.add(kind(fn, x, indices, updates, at, from_end=True, trap=trap))

    def scatter_nd(
        self,
        fn: str,
        x: SSAValue,
        indices: SSAValue,
        updates: SSAValue,
        batch: int,
        *,
        trap: bool = False,
    ) -> SSAValue:
        """Updates combined into elements at tuples of indices, behind ``batch`` axes."""
        self._check_scatter(frontend.ScatterNdOp, fn, x, indices, batch)
        return self.add(
            frontend.ScatterNdOp(fn, x, indices, updates, batch, from_end=True, trap=trap)
        )

    def _check_scatter(
        self,
        kind: type[frontend.ScatterBase],
        fn: str,
        x: SSAValue,
        indices: SSAValue,
        number: int,
    ) -> None:
        if (fault := kind.function_fault(fn)) is not None:
            raise PolycError("BadArgument", fault, self.at())
        fault = kind.GATHER.fault(tensor_of(x).dims, tensor_of(indices).dims, number)
        if fault is not None:
            raise PolycError("RankMismatch", fault.replace("gather", "scatter"), self.at())

    def softmax(self, x: SSAValue, axes: int | Sequence[int], *, log: bool = False) -> SSAValue:
        """Softmax along axes together, or its logarithm."""
        made = frontend.LogSoftmaxOp if log else frontend.SoftmaxOp
        return self.add(made(x, self.axes(x, axes)))

    def layer_norm(
        self,
        x: SSAValue,
        axes: int | Sequence[int],
        eps: float,
        weight: SSAValue | None = None,
        bias: SSAValue | None = None,
    ) -> SSAValue:
        """``(x - mean) / sqrt(var + eps) * weight + bias`` along axes together."""
        return self.add(frontend.LayerNormOp(x, self.axes(x, axes), eps, weight=weight, bias=bias))

    def rms_norm(
        self, x: SSAValue, axes: int | Sequence[int], eps: float, weight: SSAValue | None = None
    ) -> SSAValue:
        """``x / sqrt(mean(x * x) + eps) * weight`` along axes together."""
        return self.add(frontend.RmsNormOp(x, self.axes(x, axes), eps, weight=weight))

    # Movements

    def reshape(self, x: SSAValue, dims: Sequence[Dim]) -> SSAValue:
        """The elements in their order under another shape; one size of -1 is what is left."""
        own = tensor_of(x).dims
        wanted = list(dims)
        open_ = [i for i, d in enumerate(wanted) if d.constant() == -1]
        if len(open_) > 1:
            raise PolycError(
                "BadArgument",
                f"a reshape to {shape_text(wanted)} leaves {len(open_)} sizes open; one may be -1",
                self.at(),
            )
        if open_:
            rest = product(d for i, d in enumerate(wanted) if i != open_[0])
            left = divided(product(own), rest, self.inside)
            if left is None:
                raise PolycError(
                    "BadArgument",
                    f"{shape_text(own)} has {product(own)} elements, which {rest} does not divide "
                    "for all sizes; say the size that is -1",
                    self.at(),
                )
            wanted[open_[0]] = left
        if tuple(wanted) == own:
            return x
        return self.add(frontend.ReshapeOp(x, wanted))

    def permute(self, x: SSAValue, order: Sequence[int]) -> SSAValue:
        """Axes in another order: result axis ``i`` is axis ``order[i]``."""
        listed = [self.axis(x, axis) for axis in order]
        if listed == list(range(tensor_of(x).rank)):
            return x
        source = x.owner
        if isinstance(source, frontend.PermuteOp) and sorted(listed) == list(range(len(listed))):
            return self.permute(source.operand, [source.perm[axis] for axis in listed])
        return self.add(frontend.PermuteOp(x, listed))

    def expand(self, x: SSAValue, dims: Sequence[Dim]) -> SSAValue:
        """The broadcast to a shape, right-aligned."""
        kind = tensor_of(x)
        if tuple(dims) == kind.dims:
            return x
        first = len(dims) - kind.rank
        if first < 0:
            raise PolycError(
                "BroadcastMismatch",
                f"{shape_text(kind.dims)} has more axes than {shape_text(dims)}",
                self.at(),
            )
        axes = list(range(first, len(dims)))
        return self.add(frontend.ExpandOp(x, axes, tensor(dims, kind.element_type)))

    def pad(self, x: SSAValue, low: Sequence[Dim], high: Sequence[Dim], value: float) -> SSAValue:
        """Room before and after each axis, filled with a number."""
        if all(d.constant() == 0 for d in (*low, *high)):
            return x
        return self.add(frontend.PadOp(x, low, high, to_f32(value)))

    def slice(
        self, x: SSAValue, low: Sequence[Dim], high: Sequence[Dim], steps: Sequence[int]
    ) -> SSAValue:
        """A part of each axis."""
        whole = all(d.constant() == 0 for d in low) and all(s == 1 for s in steps)
        if whole and tuple(high) == tensor_of(x).dims:
            return x
        return self.add(frontend.SliceOp(x, low, high, steps))

    def concat(self, parts: Sequence[SSAValue], axis: int) -> SSAValue:
        """Tensors one after another along an axis."""
        if not parts:
            raise PolycError("BadArgument", "a concat has no tensor; give at least one", self.at())
        if len(parts) == 1:
            return parts[0]
        return self.add(frontend.ConcatOp(parts, self.axis(parts[0], axis)))

    # The end

    def finish(self, outputs: Mapping[str, SSAValue] | Sequence[SSAValue]) -> ModuleOp:
        """The module with the graph, ops that nothing reads left out.

        The builder cannot be used after it.  Raises VerifyException.
        """
        values = list(outputs.values() if isinstance(outputs, Mapping) else outputs)
        if isinstance(outputs, Mapping):
            names = list(outputs)
        elif len(values) == 1 and "out" not in self._names:
            names = ["out"]
        else:
            names = list(default_output_names(len(values), self._names))
        block = self.graph.body.block
        self._end.detach()
        for op in reversed(list(block.ops)):
            if not any(r.uses for r in op.results) and not set(op.results) & set(values):
                op.detach()
                op.erase()
        end = frontend.OutputOp(values)
        end.location = self.graph.location
        block.add_op(end)
        made = GraphOp(
            self.name,
            self._kinds,
            [v.type for v in values],
            self.graph.detach_region(self.graph.body),
            arg_names=self._names,
            res_names=names,
            assumptions=self.facts,
            location=self.graph.location,
        )
        module = ModuleOp([made])
        module.location = made.location
        made.verify()
        return module

    @staticmethod
    def _is_transpose(x: SSAValue) -> bool:
        """Whether a value is another one with its last two axes exchanged."""
        op = x.owner
        if not isinstance(op, frontend.PermuteOp) or len(op.perm) < 2:
            return False
        rank = len(op.perm)
        return op.perm == (*range(rank - 2), rank - 1, rank - 2)


def shape_of(value: SSAValue) -> Shape:
    """The sizes of a value."""
    return tensor_of(value).dims
