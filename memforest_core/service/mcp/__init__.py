"""The memory as tools of agents (Model Context Protocol)."""
