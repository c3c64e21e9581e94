"""Rebuilds a forest from its sessions beside the live one, with other rules, prompts or models."""
