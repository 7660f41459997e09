"""Regions that walk an axis in order: cumulative sums, products, maxima and minima."""
