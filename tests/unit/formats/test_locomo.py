"""Conversations in LoCoMo's format, invented ones."""

from __future__ import annotations

from typing import Any

import pytest

from memforest_core.ingest.formats.datasets import locomo
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, Wordless, each


def sample(**conversation: object) -> dict[str, Any]:
    return {"sample_id": "pair-1", "qa": [], "conversation": {"speaker_a": "Ida", "speaker_b": "Bo", **conversation}}


def turn(speaker: str, text: str, dia_id: str | None = None, **more: object) -> dict[str, object]:
    return {"speaker": speaker, "text": text, **({"dia_id": dia_id} if dia_id else {}), **more}


NOON = "12:05 pm on 3 March, 2021"


def test_each_dated_session_is_one_with_the_sample_as_owner() -> None:
    raw = sample(
        session_10=[turn("Bo", "Late.", "D10:1")],
        session_10_date_time="1:00 am on 1 May, 2021",
        session_2=[turn("Ida", "I keep bees.", "D2:1"), turn("Bo", "How many?", "D2:2")],
        session_2_date_time=NOON,
        session_3_date_time=NOON,
    )
    assert list(each([Value(1, raw)], locomo, None)) == [
        Converted(
            1,
            "pair-1",
            "session_2",
            [
                {"role": "user", "content": "I keep bees.", "id": "D2:1", "name": "Ida"},
                {"role": "user", "content": "How many?", "id": "D2:2", "name": "Bo"},
            ],
            "2021-03-03T12:05:00",
        ),
        Converted(
            1,
            "pair-1",
            "session_10",
            [{"role": "user", "content": "Late.", "id": "D10:1", "name": "Bo"}],
            "2021-05-01T01:00:00",
        ),
    ]


def test_samples_of_one_owner_have_separate_sessions() -> None:
    raw = sample(session_1=[turn("Ida", "Hello.")], session_1_date_time=NOON)
    other = raw | {"sample_id": "pair-2"}
    found = [one for one in each([Value(1, raw), Value(2, other)], locomo, "club") if isinstance(one, Converted)]
    assert [(one.owner, one.session_id) for one in found] == [
        ("club", "pair-1/session_1"),
        ("club", "pair-2/session_1"),
    ]


def test_a_shared_picture_is_described_by_its_caption() -> None:
    """Given turns with a picture, with and without words, then what it shows is said and its address is stored."""
    shared: dict[str, Any] = {"img_url": ["https://pictures.example/1"], "blip_caption": "a photo of a hive"}
    raw = sample(session_1=[turn("Ida", "Look!", **shared), turn("Bo", "", **shared)], session_1_date_time=NOON)
    (found,) = each([Value(1, raw)], locomo, None)
    assert isinstance(found, Converted)
    assert found.turns == [
        {
            "role": "user",
            "content": "Look! [shares a photo of a hive]",
            "id": "D1:1",
            "name": "Ida",
            "metadata": shared,
        },
        {"role": "user", "content": "[shares a photo of a hive]", "id": "D1:2", "name": "Bo", "metadata": shared},
    ]


def test_a_session_without_words_is_none() -> None:
    raw = sample(session_1=[], session_1_date_time=NOON, session_2=[turn("Bo", " ")])
    assert list(each([Value(4, raw)], locomo, None)) == [Wordless(4, "session_1"), Wordless(4, "session_2")]


@pytest.mark.parametrize(
    "session, hint",
    [
        ({"session_2": [turn("Ida", "Hi.")]}, "no session_2_date_time"),
        ({"session_2": [turn("Ida", "Hi.")], "session_2_date_time": "yesterday"}, "no time"),
        ({"session_2": [{"text": "Hi."}], "session_2_date_time": NOON}, "no speaker"),
        ({"session_2": ["Hi."], "session_2_date_time": NOON}, "object"),
        ({"session_2": "Hi.", "session_2_date_time": NOON}, "list"),
    ],
)
def test_a_bad_session_is_refused_and_the_others_go_on(session: dict[str, object], hint: str) -> None:
    raw = sample(session_1=[turn("Ida", "Hi.")], session_1_date_time=NOON, **session)
    good, bad = each([Value(1, raw)], locomo, None)
    assert isinstance(good, Converted) and good.session_id == "session_1"
    assert isinstance(bad, Refused) and bad.session_id == "session_2"
    assert hint in bad.error.message


@pytest.mark.parametrize(
    "raw, hint",
    [
        ([], "object"),
        ({"sample_id": "x"}, "conversation"),
        ({"conversation": {}}, "sample_id"),
        ({"sample_id": "x", "conversation": 3}, "object"),
    ],
)
def test_what_is_no_sample_is_refused(raw: object, hint: str) -> None:
    (bad,) = each([Value(7, raw)], locomo, None)
    assert isinstance(bad, Refused) and bad.position == 7
    assert hint in bad.error.message
