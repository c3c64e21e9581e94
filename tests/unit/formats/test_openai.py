"""ChatGPT's export: the branch that is shown, without what nobody said."""

from __future__ import annotations

from typing import Any

import pytest

from memforest_core.ingest.formats.datasets import chatgpt
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, Wordless, each


def message(
    role: str, *parts: object, kind: str = "text", at: float | None = None, **more: object
) -> dict[str, object]:
    return {
        "author": {"role": role},
        "create_time": at,
        "content": {"content_type": kind, "parts": list(parts)},
        **more,
    }


def chat(*nodes: tuple[str, str | None, object], current: str | None = "last", **more: object) -> dict[str, Any]:
    """A conversation of (node, parent, message); the last one's name is "last"."""
    mapping = {
        name: {"id": name, "parent": parent, "message": said, "children": [one for one, of, _ in nodes if of == name]}
        for name, parent, said in nodes
    }
    return {
        "conversation_id": "c1",
        "title": "Tea",
        "create_time": 50.5,
        "current_node": current,
        "mapping": mapping,
    } | more


def said(raw: object) -> list[object]:
    (found,) = each([Value(1, raw)], chatgpt, "ann")
    assert isinstance(found, Converted), found
    return list(found.turns)


def test_the_shown_branch_becomes_a_session() -> None:
    """Given an edited question and a regenerated answer, then only what is shown last is in the session."""
    raw = chat(
        ("root", None, None),
        ("old", "root", message("user", "I drink coffee.", at=51)),
        ("new", "root", message("user", "I drink tea.", at=52.25, id="m-new")),
        ("first", "new", message("assistant", "Noted.", at=53)),
        ("last", "new", message("assistant", "Green or black?", at=54)),
    )
    assert list(each([Value(1, raw)], chatgpt, "ann")) == [
        Converted(
            1,
            "ann",
            "c1",
            [
                {
                    "role": "user",
                    "content": "I drink tea.",
                    "id": "m-new",
                    "timestamp": 52.25,
                    "metadata": {"title": "Tea"},
                },
                {"role": "assistant", "content": "Green or black?", "id": "last", "timestamp": 54},
            ],
            50.5,
        )
    ]


@pytest.mark.parametrize(
    "left_out",
    [
        message("system", "Be kind."),
        message("tool", "{}"),
        message("user", ""),
        message("user", " \n"),
        message("user"),
        message("user", "About me.", kind="user_editable_context"),
        message("assistant", "print(1)", kind="code"),
        message("assistant", "Hm.", kind="thoughts"),
        message("assistant", "Hm.", channel="analysis"),
        message("assistant", "search(tea)", recipient="browser"),
        message("assistant", "Nothing.", weight=0.0),
        message("user", "Hidden.", metadata={"is_visually_hidden_from_conversation": True}),
        message("user", "Custom.", metadata={"is_user_system_message": True}),
        {"author": {"role": "assistant"}, "content": None},
    ],
)
def test_what_is_not_shown_is_left_out(left_out: object) -> None:
    raw = chat(("a", None, message("user", "Hello.")), ("b", "a", left_out), ("last", "b", message("assistant", "Hi.")))
    assert [turn["content"] for turn in said(raw) if isinstance(turn, dict)] == ["Hello.", "Hi."]


def test_speech_is_text_and_pictures_are_noted() -> None:
    parts = (
        {"content_type": "image_asset_pointer"},
        "What is it?",
        {"content_type": "audio_transcription", "text": "Tell me."},
    )
    raw = chat(("last", None, message("user", *parts, kind="multimodal_text")), title=None)
    (turn,) = said(raw)
    assert turn == {
        "role": "user",
        "content": "What is it?\nTell me.",
        "id": "last",
        "metadata": {"left_out": ["image_asset_pointer"]},
    }


def test_a_conversation_without_words_is_none() -> None:
    picture = message("user", {"content_type": "image_asset_pointer"}, kind="multimodal_text")
    assert list(each([Value(2, chat(("last", None, picture)))], chatgpt, "ann")) == [Wordless(2, "c1")]
    assert list(each([Value(2, chat(current=None))], chatgpt, "ann")) == [Wordless(2, "c1")]


def test_without_a_current_node_the_only_branch_is_shown() -> None:
    raw = chat(("a", "gone", message("user", "Hello.")), ("last", "a", message("assistant", "Hi.")), current=None)
    assert len(said(raw)) == 2


def test_what_is_stored_nowhere_is_taken_out_of_the_text() -> None:
    (turn,) = said(chat(("last", None, message("user", "Tea\x00 \ud83d please")), title=""))
    assert turn == {"role": "user", "content": "Tea  please", "id": "last"}


TWO = [
    ("a", None, message("user", "Hi.")),
    ("b", "a", message("assistant", "1")),
    ("last", "a", message("assistant", "2")),
]


@pytest.mark.parametrize(
    "raw, hint",
    [
        ("text", "object"),
        (chat(*TWO, conversation_id=None), "no id"),
        (chat(*TWO, mapping=None), "mapping"),
        (chat(*TWO, current="gone"), "current_node"),
        (chat(*TWO, current=None), "several branches"),
        (chat(("a", "last", message("user", "Hi.")), ("last", "a", message("user", "Hi."))), "circle"),
        (chat(("last", None, {"content": {}})), "author"),
        (chat(("last", None, message("user", "Hi.", metadata=3))), "metadata"),
        (
            chat(("last", None, {"author": {"role": "user"}, "content": {"content_type": "text", "parts": "Hi."}})),
            "parts",
        ),
    ],
)
def test_what_is_malformed_is_refused(raw: object, hint: str) -> None:
    bad, good = each([Value(1, raw), Value(2, chat(*TWO))], chatgpt, "ann")
    assert isinstance(bad, Refused) and bad.position == 1
    assert hint in bad.error.message
    assert isinstance(good, Converted)


def test_an_older_exports_id_names_the_session() -> None:
    raw = chat(*TWO, id="c9")
    del raw["conversation_id"]
    (found,) = each([Value(1, raw)], chatgpt, "ann")
    assert isinstance(found, Converted) and found.session_id == "c9"
