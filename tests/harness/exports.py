"""Files of exports, in memory and read as ``memforest ingest`` reads them."""

from __future__ import annotations

import io
from typing import Any

from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.file_items import Item
from memforest_core.ingest.formats.formats import FORMATS, Chosen, chosen, sessions
from memforest_core.ingest.formats.history import parse_map
from memforest_core.ingest.formats.talks import Findings, Options


def file_of(raw: bytes, name: str = "-") -> File:
    """A file of these bytes; without a name it comes through a pipe."""
    return File(name, len(raw), lambda: io.BytesIO(raw))


def read_file(raw: bytes, named: str | None = None, *mapped: str, **given: Any) -> list[Item]:
    """The sessions of a file, recognized unless its format is named. ``given`` are the other ``Options``."""
    options = Options(given.pop("owner", "ann"), given.pop("session", None), None, *parse_map(mapped), **given)
    file = file_of(raw)
    of = Chosen(FORMATS[named], [file]) if named else chosen([file], None)
    return list(sessions(of, options, Findings()))
