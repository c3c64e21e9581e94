"""Hooks of coding agents: each stores what was said, and gives the agent what is remembered."""
