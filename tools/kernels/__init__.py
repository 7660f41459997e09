"""Kernels written by hand in place of those that polyc derives (docs/tools/kernels-by-hand.md)."""
