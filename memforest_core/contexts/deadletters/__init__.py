"""Dead letters: work that was given up, and what a person decides about it."""
