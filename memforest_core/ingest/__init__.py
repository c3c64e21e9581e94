"""How a conversation becomes memory: accept turns, extract candidates, reduce them to facts in trees, refresh summaries."""
