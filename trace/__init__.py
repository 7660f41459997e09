"""Graphs from Python: a function over values becomes a ``frontend.graph``.

``builder.Builder`` makes a graph op by op, for what traces and for what imports; ``Value`` is a
tensor with operators; ``functions`` are the vocabulary that ``polyc`` offers.  What a function
records is compiled and called by ``polyc.jit`` (docs/tools/jit.md).
"""
