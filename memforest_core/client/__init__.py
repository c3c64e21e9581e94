"""Faces in Python: MemForest, its async and remote forms, the producer, the embedded node, a process' services."""
