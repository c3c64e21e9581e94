"""Readers of the exports of assistants and of other memories."""

from __future__ import annotations

from memforest_core.ingest.formats.format_table import Format

PRODUCTS: tuple[Format, ...] = ()
