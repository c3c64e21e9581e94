"""Lines of a file of sessions."""

from __future__ import annotations

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.json_items import read_line


def test_the_lines_owner_goes_before_the_given_one() -> None:
    assert read_line(b'{"owner": "bob", "session_id": "s", "turns": []}', "zoe").owner == "bob"
    assert read_line(b'{"session_id": "s", "turns": []}', "zoe").owner == "zoe"


def test_a_byte_order_mark_is_no_fault() -> None:
    assert read_line(b'\xef\xbb\xbf{"session_id": "s", "turns": []}', "zoe").session_id == "s"


@pytest.mark.parametrize(
    "raw, hint",
    [
        (b"nonsense", "column 1"),
        (b"[1, 2]", "object"),
        (b'"text"', "object"),
        (b'{"session_id": "s", "turns": []}', "owner"),
        (b'{"owner": "bob", "turns": []}', "session_id"),
        (b'{"owner": "bob", "session_id": "s"}', "turns"),
        (b'{"owner": "b\xff"}', "UTF-8"),
        (b"[" * 100_000, "deeply"),
    ],
)
def test_a_bad_line_says_what_to_change(raw: bytes, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint) as refused:
        read_line(raw, None)
    assert refused.value.code == "invalid_line"
