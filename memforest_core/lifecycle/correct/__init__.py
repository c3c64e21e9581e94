"""Corrections of facts, which retain their history, and pins against policies."""
