"""Keeping memory within a budget: visits are counted, policies set, and what is least worth keeping is forgotten."""
