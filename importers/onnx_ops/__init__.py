"""What ``polyc.from_onnx`` stands on: files, nodes, and the converters of ONNX's ops by group.

A converter takes a ``Node`` (``node.py``) and gives the node's outputs: one, or a tuple of them.
"""

from __future__ import annotations

from importlib import import_module

GROUPS = (
    *("arithmetic", "activations", "movements", "gathers", "reductions", "losses", "products"),
    *("windows", "resizing", "norms", "attention", "recurrent", "quantized", "control", "signal"),
    *("learning", "texts", "deformed"),
)
"""The modules of converters."""


def register() -> None:
    """Import the modules of converters, which registers these."""
    for group in GROUPS:
        import_module(f"polyc.importers.onnx_ops.{group}")
