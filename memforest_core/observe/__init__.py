"""Observing a running system: status, trees, costs, metrics, traces."""
