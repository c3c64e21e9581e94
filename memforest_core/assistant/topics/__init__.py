"""Scenes as topics: listing and reading them, which one a turn belongs to, and how hot they are."""
