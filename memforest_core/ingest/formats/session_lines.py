"""A line of a file of sessions: checked for its shape; what is inside is checked where it is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Converted, Refused
from memforest_core.ingest.formats.json_items import lines


def read_line(raw: bytes, owner: str | None, number: int = 1) -> Converted:
    """The session in a line of JSON; ``owner`` is whose it is when the line does not say. Raises InvalidInput."""
    try:
        line = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("Encode the file as UTF-8.", code="invalid_line") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"Write one JSON object a line: {error.msg} at column {error.colno}.", code="invalid_line"
        ) from None
    except RecursionError:
        raise InvalidInput("Nest the JSON less deeply.", code="invalid_line") from None
    except ValueError:
        raise InvalidInput("Shorten the numbers in the JSON.", code="invalid_line") from None
    if not isinstance(line, dict):
        raise InvalidInput("Write one JSON object a line.", code="invalid_line")
    whose = line.get("owner", owner)
    if whose is None:
        raise InvalidInput("Add an owner to the line, or give --owner.", code="invalid_line")
    for name in ("session_id", "turns"):
        if name not in line:
            raise InvalidInput(f"Add {name} to the line.", code="invalid_line")
    own = (line.get(name) for name in ("started_at", "display_name", "channel", "time_zone"))
    return Converted(number, whose, line["session_id"], line["turns"], *own)


def read_lines(chunks: Iterable[bytes], owner: str | None) -> Iterator[Converted | Refused]:
    """The sessions of a file that is handed over in chunks, and the lines that hold none."""
    for number, raw in enumerate(lines(chunks), start=1):
        if not raw.strip():
            continue
        try:
            yield read_line(raw, owner, number)
        except InvalidInput as error:
            yield Refused(number, error)
