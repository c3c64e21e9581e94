"""Correcting facts with their history kept, and pinning them against policies."""
