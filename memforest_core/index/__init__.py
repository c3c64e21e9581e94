"""The vector index, and the rows that say what belongs in it."""
