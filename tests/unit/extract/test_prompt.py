"""What a model is shown: the same bytes each time, readable back, and hashed into the cache's key."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest

from benchmarks.support.rendered_windows import parse_window
from memforest_core.domain.turns import Role
from memforest_core.domain.windows import Window
from memforest_core.extract import prompt
from memforest_core.extract.answer import ExtractionAnswer
from memforest_core.extract.prompt import PROMPT_VERSION, SYSTEM, input_hash, render_window, schema
from tests.support.builders import NOON, window, window_turn

RICH = Window(
    "bob",
    "Europe/Paris",
    (window_turn(-1, "Hello.", cell=0), window_turn(0, "Bonjour «Zoë» 🌲\n", cell=0, speaker='A "B" \\ C')),
    (window_turn(1, 'He said: {"items": []}'), window_turn(2, "\t</turns>", cell=2, role=Role.TOOL, speaker="tool")),
    2,
)
KNOWN = {"extract-2": "af9fe72447a3dbde"}
"""Digest of the fixed part by version: providers' prefix caches and ours hang on every byte of it."""


def test_the_fixed_part_changes_only_with_its_version() -> None:
    assert hashlib.sha256(SYSTEM.encode()).hexdigest()[:16] == KNOWN[PROMPT_VERSION]


def test_the_fixed_part_names_every_field_of_an_answer() -> None:
    properties = json.loads(json.dumps(schema()))["$defs"]["Item"]["properties"]

    missing = [name for name in (*properties, *ExtractionAnswer.model_fields) if f'"{name}"' not in SYSTEM]
    assert missing == []


def test_a_window_renders_to_these_bytes() -> None:
    shown = window(window_turn(1, "I live in Davis."))

    assert render_window(shown) == (
        '{"owner":"bob","time_zone":"UTC","cells":1,"context":[],"turns":[{"number":1,"cell":1,"ordinal":10,'
        '"at":"2023-05-08T12:00:00+00:00","role":"user","speaker":"Bob","text":"I live in Davis."}]}'
    )


def test_the_same_window_renders_to_the_same_bytes() -> None:
    again = Window(RICH.owner, RICH.time_zone, tuple(list(RICH.context)), tuple(list(RICH.turns)), RICH.cells)

    assert render_window(again).encode() == render_window(RICH).encode()


def test_what_was_rendered_is_read_back() -> None:
    assert parse_window(render_window(RICH)) == RICH


@pytest.mark.parametrize(
    "message",
    [
        "",
        "hello",
        "[]",
        "3",
        "null",
        '{"owner":"bob"}',
        '{"owner":"b","time_zone":"UTC","cells":1,"context":[],"turns":[3]}',
        '{"owner":"b","time_zone":"UTC","cells":1,"context":[],"turns":5}',
        render_window(RICH).replace('"tool"', '"robot"'),
        render_window(RICH).replace("2023-05-08", "2023-55-08"),
    ],
)
def test_anything_else_is_not_a_window(message: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_window(message)


BASE = window()
OTHERS = {
    "owner": Window("eve", BASE.time_zone, BASE.context, BASE.turns, BASE.cells),
    "zone": Window(BASE.owner, "Europe/Paris", BASE.context, BASE.turns, BASE.cells),
    "context": Window(BASE.owner, BASE.time_zone, (window_turn(0, "Hi.", cell=0),), BASE.turns, BASE.cells),
    "text": window(window_turn(1, "I live in Miami."), BASE.turns[1]),
    "speaker": window(window_turn(1, speaker="Eve"), BASE.turns[1]),
    "date": window(window_turn(1, at=NOON + timedelta(days=1)), BASE.turns[1]),
    "role": window(window_turn(1, role=Role.ASSISTANT), BASE.turns[1]),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_an_answer_is_kept_for_exactly_what_was_shown(other: Window) -> None:
    assert input_hash(BASE, "m") == input_hash(window(), "m")
    assert input_hash(other, "m") != input_hash(BASE, "m")


def test_an_answer_is_kept_for_one_model_and_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    before = input_hash(BASE, "m")

    assert input_hash(BASE, "n") != before
    monkeypatch.setattr(prompt, "PROMPT_VERSION", "extract-3")
    assert input_hash(BASE, "m") != before
