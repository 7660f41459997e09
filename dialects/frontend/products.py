"""The matrix product of ``frontend``, and what all products have in common (S2.2)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, StringAttr, UnitAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.precision import verify as verify_precision
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import (
    inferred,
)
from polyc.dialects.frontend.types import (
    TensorType,
    broadcast,
    need_accumulator,
    need_float,
    tensor,
    tensor_of,
)


def need_product_types(what: str, operands: Sequence[SSAValue], result: SSAValue) -> None:
    """Check that operands have one float type, and the result that or f32."""
    need_float(what, operands)
    elements = [tensor_of(v).element_type for v in operands]
    for element in elements[1:]:
        if element != elements[0]:
            raise VerifyException(
                f"{what} operands have one element type, not {elements[0]} and {element}; cast "
                "one of them"
            )
    found = tensor_of(result).element_type
    if found not in (elements[0], f32):
        article = "an" if what[0] in "aeiou" else "a"
        raise VerifyException(
            f"{article} {what} of {elements[0]} gives {elements[0]} or f32, not {found}; cast the "
            "result"
        )


def need_precision(what: str, precision: StringAttr | None, operand: SSAValue) -> None:
    """Check that ``precision`` is one, and of a product of f32."""
    verify_precision(precision)
    element = tensor_of(operand).element_type
    if precision is not None and element != f32:
        raise VerifyException(
            f"{what} has a precision of {precision}, which is said of products of f32, and its "
            f"operands hold {element}; leave it out, or cast them to f32"
        )


@irdl_op_definition
class GemmOp(IRDLOperation):
    """The matrix product ``c[m, n] = sum over k of a[m, k] * b[k, n]`` (S2.2).

    Axes before the last two are a batch, broadcast right-aligned.  ``transpose_a`` reads
    ``a`` as [K, M], ``transpose_b`` reads ``b`` as [N, K].  The sum is accumulated in
    ``acc`` (f32); operands are rounded to their element type first, since tensor cores
    take them in it (S0.6).  ``precision`` says of operands of f32 how precise their products
    have to be at least: ``"f32"``, exact, which is what holds without it, ``"tf32"`` or
    ``"f32x3"`` (docs/semantics.md, *Precision*).
    """

    name = "frontend.gemm"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    acc = opt_prop_def(Float32Type)
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    precision = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        precision: str | None = None,
        result_type: TensorType | None = None,
    ) -> None:
        """The result type is inferred for matrices and for equal batches unless given."""
        if result_type is None:
            left, right = tensor_of(a), tensor_of(b)
            batch = max((left.dims[:-2], right.dims[:-2]), key=len)
            row, column = -1 if transpose_a else -2, -2 if transpose_b else -1
            shape = inferred(lambda: (*batch, left.dims[row], right.dims[column]))
            result_type = tensor(shape, left.element_type)
        super().__init__(
            operands=[a, b],
            result_types=[result_type],
            properties={
                "acc": f32,
                "transpose_a": UnitAttr() if transpose_a else None,
                "transpose_b": UnitAttr() if transpose_b else None,
                "precision": None if precision is None else StringAttr(precision),
            },
        )

    def verify_(self) -> None:
        verify_symbols(self)
        a, b, c = tensor_of(self.a), tensor_of(self.b), tensor_of(self.result)
        need_accumulator("gemm", self.acc)
        for what, t in (("a", a), ("b", b)):
            if t.rank < 2:
                raise VerifyException(
                    f"gemm multiplies matrices; operand {what} is {t} of rank {t.rank}, give 2 "
                    "axes or more"
                )
        need_product_types("gemm", self.operands, self.result)
        need_precision("gemm", self.precision, self.a)
        m, k = reversed(a.dims[-2:]) if self.transpose_a else a.dims[-2:]
        k_of_b, n = reversed(b.dims[-2:]) if self.transpose_b else b.dims[-2:]
        if not same_size(k, k_of_b, self):
            raise VerifyException(
                f"gemm contracts sizes {k} and {k_of_b}, which differ: a is "
                f"{shape_text(a.dims)}{_flag(self.transpose_a)}, b is "
                f"{shape_text(b.dims)}{_flag(self.transpose_b)}; transpose an operand or "
                "correct a shape"
            )
        batch = broadcast((a.dims[:-2], b.dims[:-2]), self)
        if batch is None:
            raise VerifyException(
                f"BroadcastMismatch: gemm cannot broadcast the batches {shape_text(a.dims[:-2])} "
                f"and {shape_text(b.dims[:-2])}, aligned at the right; sizes there are equal or "
                "one of them is 1"
            )
        if not same_shape(c.dims, (*batch, m, n), self):
            raise VerifyException(
                f"gemm of {shape_text(a.dims)}{_flag(self.transpose_a)} and "
                f"{shape_text(b.dims)}{_flag(self.transpose_b)} is "
                f"{shape_text((*batch, m, n))}; the result says {shape_text(c.dims)}"
            )


def _flag(transposed: UnitAttr | None) -> str:
    return " transposed" if transposed else ""
