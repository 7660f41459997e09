"""Converters of ATen's ops, a file a kind."""

from polyc.importers.aten import (
    bags,
    creation,
    indexing,
    losses,
    movements,
    networks,
    patches,
    pointwise,
    pools,
    products,
    quantized,
    ranks,
    reductions,
    resampled,
    special,
)
from polyc.importers.registry import converter, converter_of

FILES = (
    *(bags, creation, indexing, losses, movements, networks, patches, pointwise, pools),
    *(products, quantized, ranks, reductions, resampled, special),
)
"""The files with converters, which are registered when these are imported."""

ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_logsumexp": "logsumexp",
    "subtract": "sub",
}
"""Other names that ATen has for an op, which PyTorch keeps apart where nothing is decomposed."""

for _alias, _name in ALIASES.items():
    _one = converter_of("torch", f"aten.{_name}")
    assert _one is not None, _name
    converter("torch", f"aten.{_alias}")(_one)
