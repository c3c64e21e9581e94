"""Rows as work: states, decisions, leases, operations, dead letters."""
