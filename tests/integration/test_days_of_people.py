"""Days of single people in a group, on the real stack: each one's own, with the words of others marked, and no other's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.integration.test_calendar import NOON, PAD, calendar

TODAY = NOON.date()
WORDS = tuple(f"{first}{second}ovix" for first in ("bar", "dol", "fen", "gim", "kav", "lur", "mop", "nez", "quib", "tas")
              for second in ("ash", "elm", "fir", "gum", "ivy", "oak", "yew", "box", "bay", "fig"))  # fmt: skip
"""A hundred words that only one person says each."""


def name(number: int) -> str:
    return f"{WORDS[number][:-4].capitalize()}ius"


def say(running: Stack, number: int, text: str, day: date = TODAY, called: str | None = None, at: int = 9) -> None:
    moment = datetime(day.year, day.month, day.day, at, tzinfo=UTC) + timedelta(seconds=number)
    turn = {"role": "user", "speaker_id": str(200 + number), "name": called or name(number), "content": text}
    running.memory.append("club", f"talk {day}", turn | {"timestamp": moment.isoformat()})


def tell(running: Stack, people: int, day: date = TODAY, turns: int = 3) -> None:
    """Everybody says so many things, the last of them with a word of their own: they don't fit 300 characters."""
    sessions = []
    for at in range(turns):
        for number in range(people):
            text = f"I finished part {at} and {PAD}." if at + 1 < turns else f"Then I saw the {WORDS[number]}, {PAD}."
            moment = datetime(day.year, day.month, day.day, 9, at, tzinfo=UTC) + timedelta(milliseconds=number)
            turn = {"role": "user", "speaker_id": str(200 + number), "name": name(number), "content": text}
            sessions.append(turn | {"timestamp": moment.isoformat()})
    running.memory.client.enqueue("club", f"talk {day} {people}", sessions)


class Writer:
    """A model that writes each speaker what ``text`` makes of the document and the number, and records documents."""

    def __init__(self) -> None:
        self.days: list[dict[str, Any]] = []
        self.periods: list[dict[str, Any]] = []
        self.text: Callable[[dict[str, Any], int], str] = own_words

    def __call__(self, body: Mapping[str, Any]) -> str:
        shown = next(text for role, text in messages_of(body) if role == "user")
        document = json.loads(shown) if shown.startswith("{") else {}
        if "speakers" in document:
            self.days.append(document)
            numbers = [each["number"] for each in document["speakers"]]
            return json.dumps({"digests": [{"number": each, "text": self.text(document, each)} for each in numbers]})
        if "then" in document:
            self.periods.append(document)
            return json.dumps({"summary": f"{document['about']}: " + " ".join(words_in(shown))})
        return shown[:200]


def words_in(text: str) -> list[str]:
    return [word for word in WORDS if word in text]


def own_words(document: Mapping[str, Any], number: int) -> str:
    own = [turn["text"] for turn in document["turns"] if turn["by"] == number]
    return " ".join(["Finished.", *(f"Said {word}." for text in own for word in words_in(text))])


def copied(document: Mapping[str, Any], number: int) -> str:
    """All of the day, for each of them."""
    return " ".join(turn["text"] for turn in document["turns"])


def half_copied(document: Mapping[str, Any], number: int) -> str:
    """The own words, and those of the speaker before."""
    return f"{own_words(document, number)} {own_words(document, number - 1)}"


@pytest.fixture
def model() -> Writer:
    return Writer()


@pytest.fixture
def club(servers: SessionServers, tmp_path: Path, embedder: Embedder, model: Writer) -> Iterator[Stack]:
    with ModelServer(answer=model) as server:
        llm = {"summarize": {"model": "openai/test", "api_base": server.url, "api_key": "key-1", "timeout_s": 30.0}}
        with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
            yield running


def check(running: Stack, days: Any, people: int, *, day: date = TODAY) -> None:
    """Everybody's day has the own word, and no other's."""
    for number in range(people):
        found = days.day(running.tenant, "club", day, str(200 + number))
        assert ([each.name for each in found.speakers], words_in(found.text)) == ([name(number)], [WORDS[number]])
        assert found.id == f"day:{day}:{200 + number}"


@pytest.mark.parametrize("people, calls", [(2, 1), (25, 1), (40, 2), (100, 4)])
@pytest.mark.parametrize("offline", [True, False])
def test_everybody_of_a_day_is_covered_in_batches(
    club: Stack, model: Writer, people: int, calls: int, offline: bool
) -> None:
    """Given many people, then a call is made for each 25 of them, once; each one's day is their own, nothing is left out."""
    tell(club, people)
    days = calendar(club, offline=offline)
    whole = days.today(club.tenant, "club")
    assert {each.speaker_id for each in whole.speakers} == {str(200 + number) for number in range(people)}
    assert sorted(words_in(whole.text)) == sorted(WORDS[:people])
    assert (whole.left_out, whole.turns, whole.calls, len(model.days)) == (
        0,
        3 * people,
        *(2 * [0 if offline else calls]),
    )
    check(club, days, people)
    assert len(model.days) == (0 if offline else calls)


@pytest.mark.parametrize("text, source, calls", [(copied, "degraded", 2), (half_copied, "model", 1)])
def test_words_of_others_are_refused(club: Stack, model: Writer, text: Any, source: str, calls: int) -> None:
    """Given a model that mixes people, then its sentences with words of others are dropped; where none is left for
    anybody the answer is refused, and rules pick."""
    tell(club, 20)
    model.text = text
    days = calendar(club)
    assert (days.today(club.tenant, "club").source, len(model.days)) == (source, calls)
    check(club, days, 20)


def test_what_is_empty_or_of_others_alone_is_picked_by_rules_and_says_so(club: Stack, model: Writer) -> None:
    tell(club, 3)
    model.text = lambda document, number: f"Said {WORDS[0]}." if number < 3 else ""
    made = calendar(club).today(club.tenant, "club")
    assert [(words_in(each.text), each.picked) for each in made.speakers] == [
        ([WORDS[0]], False), ([WORDS[1]], True), ([WORDS[2]], True),
    ]  # fmt: skip
    assert len(made.degraded) == 1
    assert made.degraded[0].startswith("Rules picked the texts of 2 speakers")
