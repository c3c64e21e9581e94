"""Readers of chats among people: messengers and chat servers."""

from __future__ import annotations

from memforest_core.ingest.formats.format_table import Format

CHATS: tuple[Format, ...] = ()
