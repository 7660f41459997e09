"""``frontend.attention``: softmax(scale * Q K^T, masked) V as one op (S2.2, S15.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, FloatAttr, StringAttr, UnitAttr, f32, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, DimAttr, Shape, ShapeAttr, parse_dim, shape_text
from polyc.dialects.common.movements import parse_sizes
from polyc.dialects.common.numbers import number_text, parse_f32
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import divided, never_negative, verify_known
from polyc.dialects.frontend.products import need_precision, need_product_types
from polyc.dialects.frontend.types import (
    TensorType,
    broadcast,
    need_accumulator,
    need_element,
    need_shape,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """Attention as a reduction over the allowed keys (S0.6, S2.2).

    ``frontend.attention %q, %k, %v mask %m scale 0.125 cap 50.0 causal window [127, 0]
    offset N - M {acc = f32} : (types) -> type``, each part after ``%v`` optional.

    ``q`` is [..., Hq, M, D], ``k`` [..., H, N, D], ``v`` [..., H, N, E], the result
    [..., Hq, M, E].  Each key head serves Hq / H query heads, an integer (grouped-query
    attention).  Scores are ``scale`` (1 / sqrt(D) unless given) times the products, and with
    ``cap`` they are ``cap * tanh(scale * product / cap)``, before masks are added.  Query
    ``m`` stands at position ``m + offset`` among the keys.  A key ``n`` is allowed where

    * ``causal`` is not given, or ``n <= m + offset``;
    * ``window [left, right]`` is not given, or
      ``m + offset - left <= n <= m + offset + right``;
    * every i1 mask holds, and no float mask, which is added to the scores, is -inf.

    Masks broadcast right-aligned to [..., Hq, M, N].  A key that is not allowed
    contributes nothing, whatever it holds; a row whose largest score is -inf, or that has
    no key, is 0.  A second result is the log of the sum of exp(score) over the allowed
    keys, [..., Hq, M] of f32; -inf for such a row.  ``precision``, beside ``acc``, is of both
    products, as of ``frontend.gemm``.
    """

    name = "frontend.attention"
    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    masks = var_operand_def(TensorType)
    scale_attr = opt_prop_def(FloatAttr[Float32Type], prop_name="scale")
    cap_attr = opt_prop_def(FloatAttr[Float32Type], prop_name="cap")
    causal = opt_prop_def(UnitAttr)
    window_attr = opt_prop_def(ShapeAttr, prop_name="window")
    offset_attr = opt_prop_def(DimAttr, prop_name="offset")
    acc = opt_prop_def(Float32Type)
    precision = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    lse = opt_result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
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
        result_type: TensorType | None = None,
    ) -> None:
        t = tensor_of(q)
        if result_type is None:
            result_type = tensor((*t.dims[:-1], tensor_of(v).dims[-1]), t.element_type)
        super().__init__(
            operands=[q, k, v, list(masks)],
            result_types=[result_type, tensor(t.dims[:-1], f32) if lse else None],
            properties={
                "scale": None if scale is None else FloatAttr(scale, f32),
                "cap": None if cap is None else FloatAttr(cap, f32),
                "causal": UnitAttr() if causal else None,
                "window": None if window is None else ShapeAttr.of(window),
                "offset": None if offset is None else DimAttr(Dim.of(offset)),
                "acc": f32,
                "precision": None if precision is None else StringAttr(precision),
            },
        )

    @property
    def scale(self) -> float | None:
        """What the scores are multiplied by; None for 1 / sqrt(D)."""
        return None if self.scale_attr is None else float(self.scale_attr.value.data)

    @property
    def cap(self) -> float | None:
        """The size that scores stay below; None for none."""
        return None if self.cap_attr is None else float(self.cap_attr.value.data)

    @property
    def offset(self) -> Dim:
        """The position of query 0 among the keys."""
        return Dim.const(0) if self.offset_attr is None else self.offset_attr.data

    @property
    def span(self) -> tuple[Dim | None, Dim | None]:
        """How far before and after its own position a query sees; None for no limit."""
        left: Dim | None = None
        right: Dim | None = None
        if self.window_attr is not None:
            left, right = self.window_attr.data
        return left, Dim.const(0) if self.causal is not None else right

    @property
    def scores(self) -> Shape:
        """The shape of the scores, [..., Hq, M, N]."""
        return (*tensor_of(self.q).dims[:-1], tensor_of(self.k).dims[-2])

    def group(self) -> Dim | None:
        """How many query heads share a key head; None where that is not known."""
        q, k = tensor_of(self.q).dims[-3], tensor_of(self.k).dims[-3]
        return Dim.const(1) if same_size(q, k, self) else divided(q, k, self)

    def verify_(self) -> None:
        verify_symbols(self)
        need_accumulator("attention", self.acc)
        types = {"q": tensor_of(self.q), "k": tensor_of(self.k), "v": tensor_of(self.v)}
        for what, t in types.items():
            if t.rank < 3 or t.rank != types["q"].rank:
                raise VerifyException(
                    f"attention takes q, k and v of one rank, 3 or more, with axes for heads, "
                    f"positions and features; {what} is {t}"
                )
        need_product_types("attention", (self.q, self.k, self.v), self.result)
        need_precision("attention", self.precision, self.q)
        q, k, v = (t.dims for t in types.values())
        for what, a, b in (
            ("batches of q and k", q[:-3], k[:-3]),
            ("batches and heads of k and v", k[:-2], v[:-2]),
            ("features of q and k", q[-1:], k[-1:]),
            ("positions of k and v", k[-2:-1], v[-2:-1]),
        ):
            if not same_shape(a, b, self):
                raise VerifyException(
                    f"the {what} of an attention are equal, not {shape_text(a)} and "
                    f"{shape_text(b)}: q is {shape_text(q)}, k {shape_text(k)}, v {shape_text(v)}"
                )
        group = self.group()
        if group is None or (group.constant() is None and k[-3].constant() != 1):
            raise VerifyException(
                f"attention has {q[-3]} query heads for {k[-3]} key heads; each key head serves "
                "the same number of query heads, an integer"
            )
        self._verify_masks()
        if (cap := self.cap) is not None and not 0 < cap < math.inf:
            raise VerifyException(
                f"the cap of an attention's scores is a number above 0, not {number_text(cap)}; "
                "leave it out where scores have none"
            )
        if self.window_attr is not None:
            if len(self.window_attr.data) != 2:
                raise VerifyException(
                    f"window {shape_text(self.window_attr.data)} of an attention has "
                    f"{len(self.window_attr.data)} sizes; give 2, how far before and after"
                )
            verify_known(self, self.window_attr.data, "the window of an attention")
            for size in self.window_attr.data:
                if not never_negative(size, self):
                    raise VerifyException(
                        f"window {shape_text(self.window_attr.data)} of an attention has the size "
                        f"{size}, which may be negative; give 0 or more, and move it by offset"
                    )
        verify_known(self, (self.offset,), "the offset of an attention")
        for size in (self.offset, *(() if self.window_attr is None else self.window_attr.data)):
            if size.as_affine(size.symbols()) is None:
                raise VerifyException(
                    f"NonSCoP: the position {size} in an attention multiplies symbols, and is not "
                    "affine; give it a symbol of its own"
                )
        need_shape(self, "the result of this attention", self.result, (*q[:-1], v[-1]))
        if self.lse is not None:
            need_element("the log-sum-exp of an attention", self.lse, f32)
            need_shape(self, "the log-sum-exp of this attention", self.lse, q[:-1])

    def _verify_masks(self) -> None:
        for mask in self.masks:
            t = tensor_of(mask)
            shape = broadcast((t.dims, self.scores), self)
            if shape is None or not same_shape(shape, self.scores, self):
                raise VerifyException(
                    f"BroadcastMismatch: a mask of {shape_text(t.dims)} does not broadcast to the "
                    f"scores, {shape_text(self.scores)}, aligned at the right; sizes are equal or "
                    "the mask's is 1"
                )

    @classmethod
    def parse(cls, parser: Parser) -> AttentionOp:
        start = parser.pos
        unresolved = parse_values(parser)
        if len(unresolved) != 3:
            parser.raise_error(
                f"attention takes q, k and v, not {len(unresolved)} values; masks follow mask",
                start,
            )
        if parser.parse_optional_keyword("mask") is not None:
            unresolved += parse_values(parser)
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("scale") is not None:
            properties["scale"] = FloatAttr(parse_f32(parser), f32)
        if parser.parse_optional_keyword("cap") is not None:
            properties["cap"] = FloatAttr(parse_f32(parser), f32)
        if parser.parse_optional_keyword("causal") is not None:
            properties["causal"] = UnitAttr()
        if parser.parse_optional_keyword("window") is not None:
            properties["window"] = parse_sizes(parser)
        if parser.parse_optional_keyword("offset") is not None:
            properties["offset"] = DimAttr(parse_dim(parser))
        args, results, attributes = parse_typed(parser, unresolved)
        for key in ("acc", "precision"):
            if (said := attributes.pop(key, None)) is not None:
                properties[key] = said
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.q, self.k, self.v), printer.print_operand)
        if self.masks:
            printer.print_string(" mask ")
            printer.print_list(self.masks, printer.print_operand)
        if (scale := self.scale) is not None:
            printer.print_string(f" scale {number_text(scale)}")
        if (cap := self.cap) is not None:
            printer.print_string(f" cap {number_text(cap)}")
        if self.causal is not None:
            printer.print_string(" causal")
        if self.window_attr is not None:
            printer.print_string(f" window {shape_text(self.window_attr.data)}")
        if self.offset_attr is not None:
            printer.print_string(f" offset {self.offset}")
        said = {"acc": self.acc, "precision": self.precision}
        print_typed(printer, self, {key: attr for key, attr in said.items() if attr is not None})


def is_boolean(mask: SSAValue) -> bool:
    """Whether a mask says which keys are allowed, rather than what is added to the scores."""
    return tensor_of(mask).element_type == i1
