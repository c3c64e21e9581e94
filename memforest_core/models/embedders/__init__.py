"""Embedding models behind the port: one that comes in a wheel, and any that litellm knows."""
