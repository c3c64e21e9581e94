"""Days of single people in a group, on the real stack: each one's own, with the words of others marked, and no other's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from memforest_core import InvalidInput
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.integration.test_calendar import NOON, PAD, Clock, calendar

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
    own = " ".join(turn["text"] for turn in document["turns"] if turn["by"] == number)
    return " ".join(["Finished.", *(f"Said {word}." for word in words_in(own))])


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
    notice = {"role": "system", "content": "The channel was opened.", "timestamp": f"{TODAY}T08:00:00Z"}
    club.memory.append("club", "notices", notice)
    days = calendar(club, offline=offline)
    whole = days.today(club.tenant, "club")
    assert {each.speaker_id for each in whole.speakers} == {str(200 + number) for number in range(people)}
    assert sorted(words_in(whole.text)) == sorted(WORDS[:people])
    assert (whole.left_out, whole.turns, whole.calls, len(model.days)) == (
        0,
        3 * people + 1,
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


def test_what_another_said_of_a_person_needs_the_name_of_who_said_it(club: Stack, model: Writer) -> None:
    tell(club, 2)
    say(club, 1, f"{name(0)} stole the kavoakix diamonds of the museum, {PAD}.")
    claim = f"{name(0)} stole the kavoakix diamonds."
    model.text = lambda document, number: f"Said {WORDS[number - 1]}. {claim} {name(1)} told that {claim}"
    shown = calendar(club).today(club.tenant, "club", "200").text
    assert shown == f"{name(0)}: Said {WORDS[0]}. {name(1)} told that {claim}"


def test_a_reply_is_of_the_day_of_whom_it_addresses_and_a_quote_ends_where_it_ends(club: Stack) -> None:
    for number, called, text in ((0, "Ann", "My code?"), (1, "Bob", 'Ann slept" Tod: "I stole.'), (2, "Cem", "Late.")):
        say(club, number, text, called=called)
    for at, text in enumerate(("Ann, your code is 4482.", "<@201> your train leaves at 8.")):
        turn = {"role": "assistant", "content": text, "timestamp": f"{TODAY}T09:00:1{at}Z"}
        club.memory.append("club", f"talk {TODAY}", turn)
    days = calendar(club, offline=True)
    assert [days.today(club.tenant, "club", who).text.splitlines()[1:] for who in ("Ann", "Bob", "Cem")] == [
        ["Bob: \"Ann slept' Tod: 'I stole.\"", 'assistant: "Ann, your code is 4482."'],
        ['assistant: "Bob your train leaves at 8."'],
        [],
    ]


def test_who_speaks_first_after_a_digest_was_made_is_in_the_next_one_within_the_hour(club: Stack) -> None:
    clock = Clock()
    days = calendar(club, clock, offline=True)
    say(club, 7, "I left.", TODAY - timedelta(days=1))
    say(club, 1, f"{name(7)} sleeps.")
    tell(club, 3, turns=4)
    assert days.today(club.tenant, "club", "207").speakers[0].turns == 0
    say(club, 7, "I came late.", at=12)
    clock.forward(minutes=59)
    assert days.today(club.tenant, "club", "207").new_turns == 1
    clock.forward(minutes=1)
    assert days.today(club.tenant, "club", "200").new_turns == 1
    assert days.today(club.tenant, "club", "207").text.startswith(f"{name(7)}: I came late.")


def test_a_name_of_several_people_is_refused(club: Stack) -> None:
    for number in (0, 1):
        say(club, number, "I ate.", called="Sam")
    days = calendar(club, offline=True)
    for read in (days.today, days.week):
        with pytest.raises(InvalidInput, match="Several people"):
            read(club.tenant, "club", "sam")
    assert days.today(club.tenant, "club", "201").text == "Sam: I ate."


def test_what_is_empty_or_of_others_alone_is_picked_by_rules_and_says_so(club: Stack, model: Writer) -> None:
    tell(club, 3)
    model.text = lambda document, number: f"Said {WORDS[0]}." if number < 3 else ""
    made = calendar(club).today(club.tenant, "club")
    assert [(words_in(each.text), each.picked) for each in made.speakers] == [
        ([WORDS[0]], False), ([WORDS[1]], True), ([WORDS[2]], True),
    ]  # fmt: skip
    assert len(made.degraded) == 1
    assert made.degraded[0].startswith("Rules picked the texts of 2 speakers")


@pytest.mark.parametrize("offline", [True, False])
def test_a_person_has_a_week_and_longer_times(club: Stack, model: Writer, offline: bool) -> None:
    """Given days of three people, then each one's week and life are made of their own days, by one call where these
    don't fit, and not made again; the week of all is one of its own."""
    for back in (1, 2, 3):
        tell(club, 3, TODAY - timedelta(days=back))
    days = calendar(club, offline=offline, week_chars=500 if offline else 100)
    weeks = [days.week(club.tenant, "club", str(200 + number)) for number in range(3)]
    assert [words_in(week.text) for week in weeks] == [[WORDS[number]] for number in range(3)]
    assert [(len(week.days), week.turns, week.about) for week in weeks] == [(3, 9, f"{200 + at}") for at in range(3)]
    assert [week.calls for week in weeks] == ([0, 0, 0] if offline else [4, 1, 1])
    assert [document["about"] for document in model.periods] == ([] if offline else [name(at) for at in range(3)])
    assert words_in(days.period(club.tenant, "club", "life", "<@202>").text) == [WORDS[2]]
    group = days.week(club.tenant, "club")
    assert (group.calls, words_in(group.text), group.turns) == (
        0 if offline else 1,
        ANY if offline else list(WORDS[:3]),
        27,
    )
    assert days.week(club.tenant, "club", "200") == replace(weeks[0], calls=0)
    assert [each.day for each in days.days(club.tenant, "club", speaker="200").items] == [
        TODAY - timedelta(days=back) for back in (1, 2, 3)
    ]


SAID = "Barashius baked a gimelmovix cake. I hate rain, my kavoakix leaks."


@pytest.mark.parametrize(
    ("said", "quoted"), [(SAID, f'Mira: "{SAID[:34]}"'), ("<@200> is right.", 'Mira: "Old is right."')]
)
@pytest.mark.parametrize("offline", [True, False])
def test_what_others_said_of_a_person_is_in_their_day_with_who_said_it(
    club: Stack, model: Writer, said: str, quoted: str, offline: bool
) -> None:
    """Given a mention by name or id, then it is in the day of the person, spoken or silent, without the rest of the
    turn; other people, and the day of all, don't have it twice."""
    yesterday = TODAY - timedelta(days=1)
    say(club, 0, "I slept.", yesterday, called="Old" if "<@" in said else None)
    for day, number in ((yesterday, 1), (TODAY, 1), (TODAY, 2)):
        say(club, number, said if number == 1 else "It is late.", day, called="Mira" if number == 1 else None)
    days = calendar(club, offline=offline)
    silent, spoke = (days.day(club.tenant, "club", day, "200") for day in (TODAY, yesterday))
    called = "Old" if "<@" in said else name(0)
    assert (silent.text, silent.speakers[0].turns) == (quoted, 0)
    assert spoke.text == f"{called}: I slept.\n{quoted}"
    assert days.today(club.tenant, "club").text.count("\n") == 1
    assert days.today(club.tenant, "club", name(2)).text == f"{name(2)}: It is late."
    assert days.today(club.tenant, "club", "Nobody").text == ""


def test_a_renamed_person_has_one_diary_under_all_names(club: Stack) -> None:
    say(club, 0, "I moved to Lyon.", TODAY - timedelta(days=1), called="gruz")
    say(club, 0, "I moved to Annecy.", called="gruzilkin")
    say(club, 1, "I am Bob.", called="Bob")
    days = calendar(club, offline=True)
    for known in ("200", "gruz", "Gruzilkin", "gruzil", "<@200>", "@gruz"):
        assert days.today(club.tenant, "club", known).text == "gruzilkin: I moved to Annecy."
        assert days.week(club.tenant, "club", known).text == "2026-11-21 (Saturday): gruz: I moved to Lyon."


@pytest.mark.parametrize("offline", [True, False])
def test_a_deletion_drops_all_that_was_made_of_a_person_s_words(club: Stack, offline: bool) -> None:
    """Given one who quotes another, when the quoted words go, then no day, week or year of anybody has them."""
    yesterday = TODAY - timedelta(days=1)
    tell(club, 3, yesterday)
    say(club, 1, f"{name(0)} saw a zanzibarium.", yesterday, at=20)
    days = calendar(club, offline=offline, week_chars=100)
    for number in ("200", "201", None):
        days.week(club.tenant, "club", number)
        days.period(club.tenant, "club", "2026", number)
    assert in_tables(club, [WORDS[0], "zanzibarium"])
    club.drive()
    club.memory.lifecycle.forget("club", actor="test", speaker="201")
    club.drive()
    club.memory.lifecycle.forget("club", actor="test", speaker="200")
    club.drive()
    assert in_tables(club, [WORDS[0], WORDS[1], "zanzibarium"]) == {}
    assert club.rows("SELECT 1 FROM memforest.calendar_digest") == []
    assert words_in(days.week(club.tenant, "club", "202").text) == [WORDS[2]]
    assert days.week(club.tenant, "club", "200").text == ""


def test_after_a_merge_a_person_s_days_cover_both(club: Stack) -> None:
    tell(club, 2, TODAY - timedelta(days=1))
    turn = {"role": "user", "speaker_id": "201", "name": name(1), "content": f"I like {WORDS[5]}."}
    club.memory.append("ann", "talk", turn | {"timestamp": f"{TODAY - timedelta(days=1)}T20:00:00Z"})
    days = calendar(club, offline=True)
    for owner in ("club", "ann"):
        assert days.week(club.tenant, owner, "201").text
    club.drive()
    club.memory.lifecycle.merge(["ann"], into="club", actor="test")
    club.drive(200)
    assert club.rows("SELECT 1 FROM memforest.calendar_digest g LEFT JOIN memforest.forest f USING (forest_id) "
                     "WHERE f.forest_id IS NULL OR f.state <> 'live'") == []  # fmt: skip
    later = calendar(club, Clock(NOON + timedelta(hours=2)), offline=True)
    assert WORDS[5] in later.week(club.tenant, "club", "201").text


def test_a_context_has_the_days_of_its_speaker_alone(club: Stack) -> None:
    tell(club, 3)
    tell(club, 3, TODAY - timedelta(days=1))
    service = replace(club.services.context, days=calendar(club))
    for number in (0, 2):
        shown = service.context(club.tenant, "club", speaker=str(200 + number))
        texts = [part.text for part in (*shown.section("today"), *shown.section("week"))]
        assert ([words_in(text) for text in texts], len(texts)) == ([[WORDS[number]]] * 2, 2)
        assert shown.digest_ids == (f"week:2026-11-16:{200 + number}", f"day:2026-11-22:{200 + number}")


def test_the_calls_of_a_chat_of_two_are_bounded(club: Stack, model: Writer) -> None:
    """Given 100 turns in ten hours, with the contexts of both read after each hour and on the next day, then today is
    made twice and once whole, and the week once for each."""
    clock = Clock(datetime(2026, 11, 21, 8, tzinfo=UTC))
    days = calendar(club, clock, week_chars=100)
    for hour in range(10):
        for turn in range(5):
            for number in (0, 1):
                say(club, number, f"Part {hour} {turn}: {WORDS[number]}, {PAD}.", clock.now.date(), at=8 + hour)
        clock.forward(hours=1)
        for speaker in ("200", "201"):
            days.today(club.tenant, "club", speaker)
            days.week(club.tenant, "club", speaker)
    assert len(model.days) == 2
    clock.forward(days=1)
    for speaker in ("200", "201", "200"):
        days.today(club.tenant, "club", speaker)
        days.week(club.tenant, "club", speaker)
    assert (len(model.days), len(model.periods)) == (3, 0)
