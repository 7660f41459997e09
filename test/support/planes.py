"""A softmax over an axis with two others inside, which loops take."""

from __future__ import annotations

WHOLE, LINE = "!frontend.tensor<[M, B, N], f16>", "!frontend.tensor<[N], f16>"

PLANES = f"""
frontend.graph @planes(%X: {WHOLE}, %G: {LINE}) -> (Y: {WHOLE}) {{
  %0 = frontend.softmax %X axes [0] : {WHOLE}
  %1 = frontend.elementwise mul %0, %G : ({WHOLE}, {LINE}) -> {WHOLE}
  frontend.output %1 : {WHOLE}
}}
"""
"""Its weights tell the two axes inside apart, which are one else."""
