"""Webhooks: events posted to other programs over HTTP, signed."""
