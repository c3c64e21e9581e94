"""Thresholds for the embedding model in use: a labelled sample, scored as the pipeline compares facts."""
