"""From chains of (subject, attribute) to ordered states: what held, since when, and what superseded it."""
