"""Webhooks: other programs are told of events over HTTP, signed as Standard Webhooks has it."""
