"""What mem0's own ``MemoryClient`` (mem0ai 2.2) asks for, in the words of this memory."""
