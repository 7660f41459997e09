"""The element types of a traced graph."""

from __future__ import annotations

from xdsl.ir import Attribute

from polyc.dialects.common import elements

ELEMENTS: dict[str, Attribute] = {str(element): element for element in elements.ELEMENTS}
"""By the names that annotations have for them."""
