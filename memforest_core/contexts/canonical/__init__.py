"""From candidates to canonical facts: what is the same, and what only sounds alike."""
