"""Checks every promise of the design against what is stored, and repairs what is derived."""
