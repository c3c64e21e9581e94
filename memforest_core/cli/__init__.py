"""The command line ``memforest``; what a command needs is imported when it runs."""

from memforest_core.cli.program import app, main

__all__ = ["app", "main"]
