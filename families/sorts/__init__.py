"""Regions that sort rows, or take the least of each."""
