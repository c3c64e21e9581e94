"""The vector index port on Qdrant: one adapter for a server, one for the engine in process."""
