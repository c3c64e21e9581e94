"""Embedding models behind the port: one that comes in a wheel, and any that litellm knows."""

ENGLISH_ONLY = frozenset({"all-minilm-l6-v2-int8"})
"""Built-in models whose vectors say little about other languages."""
