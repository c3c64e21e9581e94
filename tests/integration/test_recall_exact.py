"""A code in a question finds the turn that says it, not the turns around it, which share its cell."""

from __future__ import annotations

import pytest

from memforest_core.domain.evidence import Evidence
from tests.harness.sayings import said
from tests.harness.stack import Stack

HOBBIES = [
    line
    for number in range(12)
    for line in (
        f"Which hobby do you want to talk about, Ann? The hobby of week {number}, and what you like about the hobby?",
        f"It is hobby{number}, as I said.",
    )
]
TRAVEL = [
    "Which seat do you have on the flight? Is the seat by the window, or is the seat on the aisle of the flight?",
    "25C.",
    "And the order, what is the number of the order of the shop? I will ask the shop about the order.",
    "It was 4711-22.",
    "What is the phone number of the plumber? I need the phone number of the plumber, the number!",
    "0170 1234567",
    "Thanks. The seat, the order and the phone number of the plumber: I have them.",
]
SERVERS = [(f"10.0.{at}.{at + 40}", "第{}台服务器的地址是{}，在机房。", "地址是{}的是第几台？") for at in range(15)]
FEVERS = [
    (f"{36 + at // 4}.{at % 10}", "体温は{1}度でした、メモ{0}。", "体温が{}度だったのはどのメモ？") for at in range(15)
]
WRITTEN = [(form.format(at, code), wanted.format(code)) for at, (code, form, wanted) in enumerate((*SERVERS, *FEVERS))]


def tell(stack: Stack) -> None:
    stack.memory.ingest("ann", "hobbies", said(*HOBBIES), wait="none", backfill=True)
    stack.memory.ingest("ann", "travel", said(*TRAVEL), wait="none", backfill=True)
    stack.memory.ingest("mei", "codes", said(*(text for text, _ in WRITTEN)), wait="none", backfill=True)
    guest = [
        {**turn, "name": "user-17", "speaker_id": "user-17"} for turn in said("I sold the boat.", "user-17 was here.")
    ]
    ferry = [
        {"name": name, "speaker_id": name.lower(), "role": "user", "content": text}
        for name, text in (("Ben", "Where was the pilot from Lyon?"), ("Ann", "On 31D."))
    ]
    stack.memory.ingest("ann", "ferry", ferry, wait="none", backfill=True)
    stack.memory.ingest("ann", "guests", guest, wait="none", backfill=True)


def recalled(stack: Stack, question: str) -> tuple[Evidence, ...]:
    return stack.memory.recall("ann", question, k=10).evidence


@pytest.mark.parametrize(
    ("question", "words"),
    [
        *((f"What was said about hobby{number}?", f"It is hobby{number}, as") for number in (1, 7, 11)),
        ("Who sits on seat 25c?", "25C."),
        ("What about the order 471122 of the shop?", "4711-22"),
        ("Whose phone number is 0170/123 4567?", "0170 1234567"),
    ],
)
def test_the_turn_that_says_it_is_first(grown_once: Stack, question: str, words: str) -> None:
    first = recalled(grown_once, question)[0]
    assert words in first.text
    assert first.signals["exact"] > 0


def test_an_answer_of_few_words_has_its_question_right_behind_it(grown_once: Stack) -> None:
    first, second, *_ = recalled(grown_once, "Is anything about 31D known?")
    assert (first.text, second.text) == ("Ann: On 31D.", "Ben: Where was the pilot from Lyon?")
    assert second.score < first.score


@pytest.mark.parametrize(("text", "question"), WRITTEN)
def test_a_code_next_to_signs_without_spaces_is_found(grown_once: Stack, text: str, question: str) -> None:
    assert text in grown_once.memory.recall("mei", question, k=1).evidence[0].text


def test_a_question_without_a_code_reads_nothing_for_it(grown_once: Stack) -> None:
    assert all("exact" not in piece.signals for piece in recalled(grown_once, "Which seat does Ann have in 2023?"))


def test_who_speaks_is_no_code(grown_once: Stack) -> None:
    """Given a question that names a speaker by an id, then turns that hold the id are not put ahead for it."""
    found = recalled(grown_once, "What did user-17 say about the boat?")
    assert "sold the boat" in found[0].text
    assert all("exact" not in piece.signals for piece in found)
    both = recalled(grown_once, "What did user-17 say about hobby7?")
    assert "It is hobby7" in next(piece.text for piece in both if "exact" in piece.signals)
