"""Rebuilds a forest from its sessions as a hidden forest, with other rules, prompts or models."""
