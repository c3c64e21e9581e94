"""Keeping the vector index up with the rows it is derived from."""
