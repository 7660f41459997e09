"""Converters of ATen's ops, a file a kind; ``importers.torch`` imports them when it reads one."""
