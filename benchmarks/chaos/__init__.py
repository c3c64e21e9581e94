"""Breaks things on purpose while sessions flow, and counts what was lost, doubled or missing afterwards."""
