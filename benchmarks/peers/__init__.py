"""MemForest compared with other agent memories: the same sessions, the same model server, the same embedder."""
