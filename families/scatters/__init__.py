"""Regions that combine updates into values where indices say so."""
