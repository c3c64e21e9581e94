"""From a question to evidence: recall, browse, score, resolve."""
