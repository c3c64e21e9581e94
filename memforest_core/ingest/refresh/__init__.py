"""Regenerating summaries and vectors along the paths that changed, and only there."""
