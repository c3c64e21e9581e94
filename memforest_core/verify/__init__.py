"""Checking every promise of the design against what is stored, and mending what is derived."""
