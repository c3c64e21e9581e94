"""Backup and restore of everything that the database keeps; the index is built again from it."""
