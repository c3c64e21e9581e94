"""Postgres: the only source of truth. Rows never leave this package."""
