"""Backup and restore of all rows of the database; the index is rebuilt from them."""
