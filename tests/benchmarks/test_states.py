"""Stated states are compared with labels as the labels mean it, and both halves of the labels are whole and balanced."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.eval.states import ATTRIBUTES, LOCKED, RIGHT, Label, Stated, normalized, read, says, score

OPEN, HIDDEN = read(False), read(True)


def label(attribute: str, *values: str, subject: str = "Kim", polarity: str = "positive", plain: bool = True) -> Label:
    return Label((subject,), attribute, values, polarity, plain)


@pytest.mark.parametrize(
    ("value", "accepted", "right"),
    [
        ("The Nurse", "nurse", True),
        ("nurse at St. Olav's", "nurse", True),
        ("nurse at the old town clinic", "nurse", False),
        ("cats", "cat", False),
        ("64.5 kg", "64.5", True),
        ("Kim Adeyemi-Larsen", "adeyemi larsen", True),
        ("", "cat", False),
    ],
)
def test_a_value_is_right_when_it_says_an_accepted_one_and_little_more(value: str, accepted: str, right: bool) -> None:
    assert says(normalized(value), normalized(accepted)) is right


def test_what_no_label_allows_is_false_and_only_plain_labels_can_be_missed() -> None:
    labels = [label("job", "nurse"), label("age", "34"), label("pet", "cat", plain=False)]
    stated = [
        Stated("Kim", "job", "nurse"),
        Stated("Kim", "pet", "cat"),
        Stated("Kim", "residence", "the stone age"),
        Stated("Kim", "height", "183"),
    ]
    made = score("plain", labels, stated)
    assert [one.value for one in made.true] == ["nurse", "cat"]
    assert [one.value for one in made.false] == ["the stone age"]
    assert (made.found, made.missed) == ((labels[0],), (labels[1],))


@pytest.mark.parametrize("data", [OPEN, HIDDEN], ids=["open", "locked"])
def test_each_half_is_whole(data: Any) -> None:
    items = data["states"]
    assert len(items) == 351
    assert sum(any(one["plain"] for one in item["states"]) for item in items) == 145
    plain = Counter(one["attribute"] for item in items for one in item["states"] if one["plain"])
    assert set(plain) == ATTRIBUTES
    assert min(plain.values()) >= 5
    assert all(1 <= len(item["turns"]) <= 3 for item in items)
    assert {name: len(data["pairs"][name]) for name in data["pairs"]} == dict.fromkeys(RIGHT, 60)


def test_no_item_or_pair_is_in_both_halves_and_the_locked_file_shows_none() -> None:
    texts = [[str(item["turns"]) for item in data["states"]] for data in (OPEN, HIDDEN)]
    pairs = [{str(pair) for name in RIGHT for pair in data["pairs"][name]} for data in (OPEN, HIDDEN)]
    assert len(set(texts[0]) & set(texts[1])) == len(pairs[0] & pairs[1]) == 0
    assert len({item["id"] for data in (OPEN, HIDDEN) for item in data["states"]}) == 702
    whole = LOCKED.read_text(encoding="ascii")
    assert sum(text in whole for text in texts[1]) == 0
