"""Accepting sessions: check, cut, store, and only then wake workers."""
