"""Requests of mem0's ``MemoryClient`` (mem0ai 2.2) as calls of this memory."""
