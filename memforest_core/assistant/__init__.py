"""Memory for a chat assistant: conversation window, calendar of days, topics, profiles, and the context of a prompt."""
