"""Extraction without a model: the same answer for the same window, by rules."""

from memforest_core.ingest.extract.offline.proposing import propose

__all__ = ["propose"]
