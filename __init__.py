"""polyc: a dialect toolkit from tensor programs to CUDA C for SM80 and SM90."""

__version__ = "0.1.0"
