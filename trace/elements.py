"""The element types of a traced graph."""

from __future__ import annotations

from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import Attribute

ELEMENTS: dict[str, Attribute] = {"f16": f16, "bf16": bf16, "f32": f32, "i1": i1}
"""By the names that annotations have for them."""
