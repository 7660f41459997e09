"""The element types of a traced graph."""

from __future__ import annotations

from xdsl.ir import Attribute

from polyc.dialects.common import elements
from polyc.trace.source import refuse

ELEMENTS: dict[str, Attribute] = {str(element): element for element in elements.ELEMENTS}
"""By the names that annotations have for them."""


def places_type(dtype: str) -> Attribute:
    """The type of places by its name."""
    if dtype not in ("i64", "i32"):
        refuse("BadArgument", f'places are "i64" or "i32", not {dtype!r}')
    return ELEMENTS[dtype]
