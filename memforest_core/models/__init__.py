"""Calls to models: chat, embedding, reranking, and the limits they keep to."""
