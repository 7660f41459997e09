"""``polyc tune`` and ``polyc calibrate``: programs compiled, checked and timed."""
