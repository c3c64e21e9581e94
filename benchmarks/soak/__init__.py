"""Callers ingest, recall, forget, correct, merge, export and import at random while processes are killed, against a model in memory."""
