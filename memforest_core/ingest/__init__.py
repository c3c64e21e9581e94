"""Conversations become memory: accept turns, extract candidates, reduce them to facts, refresh summaries."""
