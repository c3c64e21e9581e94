"""What texts ask of a memory, by rules; and what of a model's reading is taken."""

from __future__ import annotations

import pytest

from memforest_core.assistant.profile.intents import IntentAnswer, _checked, read_by_rules
from memforest_core.assistant.profile.records import Intent, IntentKind, Made
from memforest_core.errors import ContentFault

REMEMBER, FORGET, ABOUT_ME = IntentKind.REMEMBER, IntentKind.FORGET, IntentKind.ABOUT_ME


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("Remember that I moved to Miami.", REMEMBER, "I moved to Miami"),
        ("remember: my birthday is 5 May", REMEMBER, "my birthday is 5 May"),
        ("Hey, can you remember that I am allergic to nuts?", REMEMBER, "I am allergic to nuts"),
        ("Don\u2019t forget that I hate cilantro.", REMEMBER, "I hate cilantro"),
        ("never forget my name is Bob", REMEMBER, "my name is Bob"),
        ("Keep in mind that we meet on Fridays.", REMEMBER, "we meet on Fridays"),
        ("Note that the code is 1234.", REMEMBER, "the code is 1234"),
        ("Hi! Remember that I live in Oslo. What's the weather?", REMEMBER, "I live in Oslo"),
        ("I want you to remember that I'm left-handed", REMEMBER, "I'm left-handed"),
        ("forget that I like jazz", FORGET, "I like jazz"),
        ("Please forget where I work.", FORGET, "where I work"),
        ("please forget about my ex", FORGET, "my ex"),
        ("Forget everything about my job.", FORGET, "my job"),
        ("Forget what I told you about my boss", FORGET, "my boss"),
        ("delete my address from your memory", FORGET, "my address"),
        ("What do you know about me?", ABOUT_ME, ""),
        ("Tell me everything you know about me", ABOUT_ME, ""),
        ("Who am I?", ABOUT_ME, ""),
        ("what do you remember about my job?", ABOUT_ME, "my job"),
    ],
)
def test_requests_are_read_with_their_object(text: str, kind: IntentKind, what: str) -> None:
    assert read_by_rules(text) == Intent(kind, what, Made.RULES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello there",
        "Do you remember where I live?",
        "Remember when we went to Rome?",
        "Remember me?",
        "I remember that day.",
        "I always forget my keys.",
        "forget it",
        "Forget about it!",
        "note to self",
        "Delete the file report.txt",
        "What do you know about quantum physics?",
        "What is my job?",
    ],
)
def test_other_texts_ask_for_nothing(text: str) -> None:
    assert read_by_rules(text) == Intent(IntentKind.NONE, "", Made.RULES)


@pytest.mark.parametrize(
    "text", ["remember " * 1_000, "forget about " * 1_000, "please " * 1_100, "what do you " * 680]
)
def test_long_texts_are_read_in_no_time(text: str) -> None:
    read_by_rules(text)


@pytest.mark.parametrize(
    ("kind", "what", "expected"),
    [
        ("remember", "i  LIVE in Oslo.", Intent(REMEMBER, "i LIVE in Oslo", Made.MODEL)),
        ("about_me", "", Intent(ABOUT_ME, "", Made.MODEL)),
        ("none", "anything", Intent(IntentKind.NONE, "", Made.MODEL)),
    ],
)
def test_a_models_object_is_a_run_of_words_of_the_text(kind: str, what: str, expected: Intent) -> None:
    answer = IntentAnswer(kind=IntentKind(kind), object=what)

    assert _checked(answer, "Please keep: I live in Oslo.") == expected


@pytest.mark.parametrize(("kind", "what"), [("remember", "I live in Bergen"), ("forget", ""), ("remember", " . ")])
def test_a_models_object_that_is_not_in_the_text_is_a_fault(kind: str, what: str) -> None:
    with pytest.raises(ContentFault):
        _checked(IntentAnswer(kind=IntentKind(kind), object=what), "Please keep: I live in Oslo.")
