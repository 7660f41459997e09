"""``polyc.jit`` and ``polyc.compile``: Python functions, texts and modules that are called."""
