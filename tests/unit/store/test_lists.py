"""Lists as parameters: the bytes are those that the driver writes item by item."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

import psycopg
import pytest
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.array import ListDumper
from psycopg.types.json import Jsonb

from memforest_core.store.engine import PlainLists


def dumped(kind: type[ListDumper], value: list[Any]) -> tuple[bytes, int]:
    """The bytes and the type that are sent."""
    dumper = kind(list, Transformer(psycopg.adapters)).upgrade(value, PyFormat.TEXT)
    return bytes(dumper.dump(value) or b""), dumper.oid


@pytest.mark.parametrize(
    "value",
    [
        [UUID(int=0), UUID(int=2**128 - 1), uuid5(UUID(int=7), "x")],
        [0, -1, 2**40],
        ["a", 'quoted "text"', "null", ""],
        [
            "Null",
            "nullify",
            "a,b",
            "{a}",
            "a b",
            "a\tb",
            "line\nline",
            "back\\slash",
            '\\"',
            "é 漢字 \u00a0 \u2003",
            "ü\u00a0x",
        ],
        ["a", None, "NULL"],
        [Jsonb({"text": 'she said "no" \\', "n": [1, None], "é": "漢\0"}), Jsonb(None), Jsonb([])],
        [None],
        [UUID(int=1), None],
        [[1, 2], [3, 4]],
        [True, False],
        [1.5, -2.0],
        [],
    ],
    ids=repr,
)
def test_a_list_is_sent_as_the_driver_would(value: list[Any]) -> None:
    assert dumped(PlainLists, value) == dumped(ListDumper, value)


def test_bytes_are_sent_in_hexadecimal() -> None:
    """Without a connection the driver itself would write an older notation."""
    given = [b"", b"\\x", b'"{,}', b"\x00\xff"]
    assert dumped(PlainLists, given)[0] == rb'{"\\x","\\x5c78","\\x227b2c7d","\\x00ff"}'


def test_a_text_with_a_nul_is_refused_as_the_driver_refuses_it() -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        dumped(PlainLists, ["a", "b\0c"])
