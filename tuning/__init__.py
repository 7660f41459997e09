"""Measured plans: what is tried, timed and kept, and how it is used again (S11.2, S11.3)."""
