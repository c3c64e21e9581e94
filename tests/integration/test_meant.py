"""Questions about now, before, first and last over the real pipeline: a joke, a wish or somebody else's life is not lifted
above what is so, and where nothing is certain items are in the order of recall."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from memforest_core.domain.evidence import Evidence
from memforest_core.models.calls import Embedder
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

START = 1_714_000_000
DAY = 86_400
LIFTS = {"current", "previous", "series"}


class Case(NamedTuple):
    """What somebody says on three days, a question, words of its first item, and of the items that nothing lifts."""

    why: str
    days: tuple[tuple[str, ...], ...]
    question: str
    first: str
    not_lifted: tuple[str, ...]


CASES = (
    Case(
        "a joke in the words of the question",
        (
            ("i live in leeds these days, third floor, no lift", "the neighbours upstairs never sleep"),
            ("where do i live? kidding, i live in a cupboard", "my flat is so small", "the new kiln came"),
        ),
        "Where do I live now?",
        "leeds",
        ("cupboard",),
    ),
    Case(
        "a joke that says so in its next sentence",
        (
            ("I work at the Harbour Bakery, early shifts.", "My bike got stolen on Monday."),
            ("I work for NASA now, they need bakers in orbit. Just kidding.", "The croissants came out great today."),
        ),
        "Where do I work now?",
        "Harbour",
        ("NASA",),
    ),
    Case(
        "a joke about the last of something that no state is of",
        (
            ("The last book I read was Dune, took me a month.",),
            ("the last book I read was the phone book, just kidding", "I should read more."),
        ),
        "What is the last book I read?",
        "Dune",
        ("phone book",),
    ),
    Case(
        "a supposition",
        (
            ("I live in Porto, close to the river.", "The tram is loud."),
            ("If I lived in Tokyo I'd eat ramen every day.", "Imagine: I live in Tokyo and own a cat cafe."),
        ),
        "Where do I live now?",
        "Porto",
        ("If I lived in Tokyo", "Imagine"),
    ),
    Case(
        "what held once and is told last",
        (
            ("I live in Gdansk with two flatmates.",),
            ("I moved to Krakow last week, the flat has a balcony.",),
            ("Back when I lived in Gdansk the sea was five minutes away.", "Bought a plant for the balcony."),
        ),
        "Where do I live now?",
        "Krakow",
        ("Back when",),
    ),
    Case(
        "a brother's job",
        (
            ("I work as a nurse at the children's hospital.", "The night shifts are rough."),
            ("My brother works at the airport now, he loves it.",),
            ("My sister moved to Lyon.",),
        ),
        "Where do I work now?",
        "nurse",
        ("airport",),
    ),
    Case(
        "a plan",
        (("I live in Graz, top floor.",), ("I'm going to move to Vienna in autumn.", "It has a big park.")),
        "Where do I live now?",
        "Graz",
        (),
    ),
    Case(
        "a denial",
        (("I work at a bookshop in town.",), ("I don't work at the library, everyone thinks that.",)),
        "Where do I work now?",
        "bookshop",
        (),
    ),
    Case(
        "what nearly came true, and what is refused",
        (
            ("I live in Utrecht, above a bakery.",),
            ("I refuse to live in London.", "I almost moved to London last year."),
        ),
        "Where do I live now?",
        "Utrecht",
        ("refuse", "almost"),
    ),
    Case(
        "a lie",
        (
            ("I live in Ghent, behind the station.",),
            ("I told my boss I live in Antwerp, but that's a lie.", "The commute is long."),
        ),
        "Where do I live now?",
        "Ghent",
        ("Antwerp",),
    ),
    Case(
        "a joke about what was before",
        (("I used to live in Sendai.",), ("I live in Kobe now.",), ("Before Kobe I lived on the moon, just kidding.",)),
        "Where did I live before Kobe?",
        "Sendai",
        ("moon",),
    ),
    Case(
        "a joke about the first of something",
        (
            ("My first car was a red Panda, it had no heating.",),
            ("my first car was a spaceship, jk", "Now I take the bus."),
        ),
        "What was my first car?",
        "Panda",
        ("spaceship",),
    ),
)
each_case = pytest.mark.parametrize("number", range(len(CASES)), ids=[case.why for case in CASES])


@pytest.fixture(scope="module")
def people(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    """A memory for each case; nothing here changes it."""
    with stack(servers, tmp_path_factory.mktemp("meant"), embedder=embedder) as running:
        for number, case in enumerate(CASES):
            for day, texts in enumerate(case.days):
                tell(running, f"p{number}", day, *texts)
        tell(running, "laughing", 0, "I live in York, near the river.")
        tell(running, "laughing", 30, "i live in leeds now lol, who would have thought")
        tell(running, "castle", 0, "just kidding, i live in a castle", "my street is being repaved, loud")
        tell(running, "related", 0, "I live in Bern.", "My brother lives in Doha now.", "My dog sleeps a lot.")
        running.drive()
        yield running


def tell(running: Stack, owner: str, day: int, *texts: str) -> None:
    turns = [
        {
            "id": f"s{day}t{at}",
            "role": "user",
            "name": owner.title(),
            "content": text,
            "timestamp": START + day * DAY + at,
        }
        for at, text in enumerate(texts)
    ]
    running.memory.enqueue(owner, f"s{day}", turns, display_name=owner.title())


def recalled(people: Stack, owner: str, question: str) -> tuple[Evidence, ...]:
    return people.memory.recall(owner, question, k=10).evidence


@each_case
def test_what_is_so_comes_first(people: Stack, number: int) -> None:
    case = CASES[number]
    assert case.first in recalled(people, f"p{number}", case.question)[0].text


@each_case
def test_what_is_not_meant_is_found_and_not_lifted(people: Stack, number: int) -> None:
    case = CASES[number]
    found = recalled(people, f"p{number}", case.question)
    for words in case.not_lifted:
        (piece,) = [piece for piece in found if words in piece.text]
        assert not LIFTS & set(piece.signals)


def test_where_only_a_joke_mentions_a_state_nothing_is_promoted(people: Stack) -> None:
    found = recalled(people, "castle", "Where do I live now?")
    assert any("castle" in piece.text for piece in found)
    assert all("current" not in piece.signals for piece in found)


def test_a_state_that_is_mentioned_with_laughter_is_not_promoted_and_neither_is_the_one_before(people: Stack) -> None:
    """Whether it is a joke is not certain, so items are in the order of recall."""
    found = recalled(people, "laughing", "Where do I live now?")
    assert "leeds" in found[0].text
    assert all("current" not in piece.signals for piece in found)


def test_a_question_about_a_relative_has_that_relative_first(people: Stack) -> None:
    assert "Doha" in recalled(people, "related", "Where does my brother live now?")[0].text
    assert "Bern" in recalled(people, "related", "Where do I live now?")[0].text
