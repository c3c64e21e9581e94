"""Values of a file one by one, wherever its chunks end."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.ingest.formats import json_items as reader
from memforest_core.ingest.formats.file_items import Refused, Value
from memforest_core.ingest.formats.json_items import json_items, lines

TEXTS = st.text(st.sampled_from('ab"\\[]{},: \n\t/uäπ漢😀'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def cut(raw: bytes, cuts: list[int]) -> Iterator[bytes]:
    """The bytes in parts, which end at the given positions."""
    locations = [0, *sorted(place % (len(raw) + 1) for place in cuts), len(raw)]
    return (raw[start:end] for start, end in pairwise(locations))


def contents(raw: bytes, *under: str, size: int = 7) -> list[object]:
    """What is read from bytes that come in small chunks; a refusal as its position and code."""
    chunks = (raw[start : start + size] for start in range(0, len(raw), size))
    return [
        one.content if isinstance(one, Value) else (one.position, one.error.code) for one in json_items(chunks, under)
    ]


@settings(max_examples=150)
@given(
    values=st.lists(JSON, max_size=5),
    indent=st.none() | st.integers(0, 2),
    ascii_=st.booleans(),
    mark=st.booleans(),
    cuts=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_a_list_is_read_as_it_is_wherever_it_is_cut(
    values: list[object], indent: int | None, ascii_: bool, mark: bool, cuts: list[int]
) -> None:
    """Given any JSON list, when its bytes come in any parts, then its items come in order with their positions."""
    raw = json.dumps(values, indent=indent, ensure_ascii=ascii_).encode("utf-8-sig" if mark else "utf-8")
    assert list(json_items(cut(raw, cuts))) == [Value(number, one) for number, one in enumerate(values, 1)]


@settings(max_examples=150)
@given(
    before=st.lists(JSON, max_size=2),
    broken=JSON,
    after=st.lists(JSON, max_size=2),
    cuts=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_a_broken_item_takes_no_other_along_wherever_it_is_cut(
    before: list[object], broken: object, after: list[object], cuts: list[int]
) -> None:
    """Given a list with an item that is no JSON, when its bytes come in any parts, then all others are read."""
    items = [*map(json.dumps, before), f"[{json.dumps(broken)}, tru]", *map(json.dumps, after)]
    # A first line, so that the parts are not put together before they are read.
    read = list(json_items(chain([b"[\n"], cut(f"{', '.join(items)}]".encode(), cuts))))
    refused = read.pop(len(before))
    assert isinstance(refused, Refused) and refused.position == len(before) + 1
    numbers = [*range(1, len(before) + 1), *range(len(before) + 2, len(items) + 1)]
    assert read == [Value(number, one) for number, one in zip(numbers, before + after, strict=True)]


@pytest.mark.parametrize(
    "raw, read",
    [
        (b"", []),
        (b" \n ", []),
        (b"[]", []),
        (b'{\n  "a": [1]\n}', [{"a": [1]}]),
        (b'{"a": 1}\n\n{"b": 2}', [{"a": 1}, {"b": 2}]),
        (b'{"a":\n1}\n{"b":\n2}', [{"a": 1}, {"b": 2}]),
        (b"[1] [2, 3]", [1, 2, 3]),
        (b"[12345678901, true]", [12345678901, True]),
    ],
)
def test_single_objects_lines_and_lists(raw: bytes, read: list[object]) -> None:
    assert contents(raw) == read


@pytest.mark.parametrize(
    "raw, read",
    [
        (b'{"results": [1, 2]}\n{"results": [3]}', [1, 2, 3]),
        (b'{\n "count": 2,\n "memories": [1, 2],\n "more": {"results": [9]}\n}', [1, 2]),
        (b'{"id": 1}\n{"id": 2}', [{"id": 1}, {"id": 2}]),
        (b'[{"id": 1}]', [{"id": 1}]),
    ],
)
def test_pages_are_opened(raw: bytes, read: list[object]) -> None:
    assert contents(raw, "results", "memories") == read


@pytest.mark.parametrize(
    "raw, read",
    [
        (b'[{"a": 1}, {"b": x, "]}": "},\\"{"}, {"c": 3}]', [{"a": 1}, (2, "invalid_json"), {"c": 3}]),
        (
            b"[1, , 3, tru, [5, {}, -], 6, x]",
            [1, (2, "invalid_json"), 3, (4, "invalid_json"), (5, "invalid_json"), 6, (7, "invalid_json")],
        ),
        (b'[{\\"a\\": "x, y"}, 2]', [(1, "invalid_json"), 2]),
        (b'[1, {"a": "x}, {"b": 2}, {"c": 3}]', [1, (2, "invalid_json")]),
        (b'[1, {"a": 2', [1, (2, "invalid_item")]),
        (b'[1, {"a": "\\', [1, (2, "invalid_item")]),
        (b"[1, 2", [1, 2, (3, "invalid_item")]),
        (b"[1,", [1, (2, "invalid_item")]),
        (b"[1 2]", [1, (2, "invalid_item")]),
        (b'["a", "\xff", "c"]', ["a", (2, "invalid_json"), "c"]),
        (b'["a", "\xc3', ["a", (2, "invalid_item")]),
        ("[1, 2]".encode("utf-16"), [(1, "invalid_json")]),
        (
            b'{"a": 1}\n{"a": \n{"b": "\xff"}\n[3',
            [{"a": 1}, (2, "invalid_json"), (3, "invalid_json"), (4, "invalid_json")],
        ),
        (b"[" + b"9" * 5_000 + b", 2]", [(1, "invalid_json"), 2]),
        (b"[" + b"[" * 100_000 + b"]" * 100_000 + b", 2]", [(1, "invalid_json"), 2]),
        (b"<html>", [(1, "invalid_json")]),
    ],
)
def test_what_is_no_json_is_refused_by_its_position(raw: bytes, read: list[object]) -> None:
    assert contents(raw, size=3 if len(raw) < 100 else 1_000) == read


@pytest.mark.parametrize("place", range(1, 9))
def test_a_number_is_whole_wherever_it_is_cut(place: int) -> None:
    number = b"5.82e+16"
    assert list(json_items([b"[\n", number[:place], number[place:], b", 2]"])) == [Value(1, 5.82e16), Value(2, 2)]


def test_an_item_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_ITEM_CHARS", 20)
    assert contents(b'[1, "' + b"x" * 100) == [1, (2, "invalid_item")]


def test_an_item_that_is_too_long_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_ITEM_CHARS", 20)
    assert contents(b'[1, ["' + b"x" * 2 * reader.LOOK_AHEAD + b'"], 3]') == [1, (2, "invalid_item"), 3]


def test_where_no_end_is_found_the_message_says_that_the_rest_is_not_read() -> None:
    *_, last = json_items([b'[1, {"a": "x}, {"b": 2}, {"c": 3}]'])
    assert isinstance(last, Refused) and last.error.message.endswith("Nothing from here on can be read.")


def test_memory_is_that_of_one_item() -> None:
    """Given a list of 32 MB in chunks of 64 kB, when it is read, then a small part of it is ever held."""
    item = json.dumps({"text": 'words and \\ "quotes" ' * 500}).encode() + b",\n"
    count = 32_000_000 // len(item)

    def chunks() -> Iterator[bytes]:
        yield b"["
        for _ in range(count):
            yield item
        yield b"0]"

    tracemalloc.start()
    try:
        read = sum(1 for one in json_items(chunks()) if not isinstance(one, Refused))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == count + 1
    assert peak < 1_000_000


def test_lines_come_when_they_are_whole() -> None:
    coming = iter([b"one\ntw", b"o\n", b"\nthree"])
    read = lines(coming)
    assert next(read) == b"one"
    assert list(coming) == [b"o\n", b"\nthree"]
    assert list(lines([b"one\ntw", b"o\n", b"\nthree"])) == [b"one", b"two", b"", b"three"]
