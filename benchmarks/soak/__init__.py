"""Callers do everything at random while processes are killed; what comes of it is held against a model in memory."""
