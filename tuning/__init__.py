"""Measured plans: what is tried, timed and kept, and how what was kept is used (S8.2, S11.2, S11.3)."""
