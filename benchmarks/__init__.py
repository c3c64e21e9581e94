"""Benchmarks: what inserting and refreshing cost as memory grows; each prints one JSON object with ``--json``."""
