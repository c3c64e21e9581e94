"""Answers over evidence: one call, citations that exist, and an honest "not in memory"."""
