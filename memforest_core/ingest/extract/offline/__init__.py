"""Extraction without a model: the same answer for the same window, by rules."""
