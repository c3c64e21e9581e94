"""Twenty people of one owner, each with own words: no profile, day or context of one has a word of another."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

CLUB, DAYS = "climbing club", 4
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
SECTIONS = ("profile", "today", "week", "evidence")
_NAMES = """
    Adrian Bertha Clemens Dorothy Elvira Fabian Greta Hubert Ingrid Joshua Kirsten Leopold Miriam Norbert Octavia
    Patrick Quentin Rosalind Stefan Theresa
"""
NAMES = _NAMES.split()
IDS = [str(100 + number) for number in range(len(NAMES))]
SAYINGS = (
    ("own", "I live in {Word}."),
    ("own", "I have a cat named {Word}."),
    ("own", "I repaired the {word} in my cellar."),
    ("others", "{name} works at {Word}."),
    ("others", "{name} was tired because of the {word}."),
    ("others", "<@{id}> is allergic to {word}."),
    ("event", "{name} and I built the {word} behind the hut."),
    ("event", "I lent {name} my {word} for the weekend."),
)
"""What is said by somebody, or of them by the next one, each with a word that nothing else has."""
_PARTS = product("bdfgklmnprstvz", "aeiou", "bdfgklmnprstvz", "aeiou")
WORDS = ["".join(parts) + "xq" for parts in _PARTS][::20][: len(NAMES) * len(SAYINGS)]


def planted() -> Iterator[tuple[int, str, str, set[int]]]:
    """Each turn: who says it, its word, what is said, and whom it is about."""
    for at, (who, (kind, text)) in enumerate(product(range(len(NAMES)), SAYINGS)):
        word, says = WORDS[at], who if kind == "own" else (who + 1) % len(NAMES)
        said = text.format(word=word, Word=word.capitalize(), name=NAMES[who], id=IDS[who])
        yield says, word, said, {who, says} if kind == "event" else {who}


def tell(running: Stack) -> None:
    """Four days in one channel, everybody every day."""
    days: dict[int, list[dict[str, object]]] = defaultdict(list)
    for at, (says, _, text, _) in enumerate(planted()):
        day = (at + at // len(SAYINGS)) % DAYS
        moment = TODAY - timedelta(days=day) + timedelta(seconds=at)
        turn = {"role": "user", "speaker_id": IDS[says], "name": NAMES[says], "content": text, "timestamp": moment}
        days[day].append(turn)
    for day, turns in days.items():
        running.memory.enqueue(CLUB, f"day-{day}", turns, channel="general")  # type: ignore[arg-type]


def copying(body: Mapping[str, Any]) -> str:
    """A model that answers with all texts that it was shown, for whomever."""
    shown = next(text for role, text in messages_of(body) if role == "user")
    if not shown.startswith("{"):
        return shown
    document = json.loads(shown)
    said = " ".join(_texts(document))
    for key, shape in {
        "states": {"text": said[: document.get("max_chars", 0)], "states": [1]},
        "history": {"text": said[: document.get("max_chars", 0)], "facts": [1], "days": "today"},
    }.items():
        if key in document:
            return json.dumps({"sentences": [shape]})
    if "speakers" in document:
        digests = [{"number": each["number"], "text": said} for each in document["speakers"]]
        return json.dumps({"digests": digests})
    return json.dumps({"summary": said})


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


@pytest.fixture(params=["offline", "model"])
def club(
    request: pytest.FixtureRequest, servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> Iterator[Stack]:
    with ModelServer(answer=copying) as server:
        one = {"model": "openai/test-model", "timeout_s": 5.0, "api_key": "key-1", "api_base": server.url}
        llm = dict.fromkeys(("profile", "summarize"), one) if request.param == "model" else {}
        merged = {"merge": bool(llm), "fractions": {"profile": 1.0, "today": 0.5, "week": 0.5}}
        with cloned(servers, grown, tmp_path, embedder, llm=llm, context=merged) as running:
            yield running


def views(club: Stack, who: int, question: str) -> Iterator[tuple[str, str]]:
    """All that is shown of one person, by name."""
    memory, id_ = club.memory, IDS[who]
    context = memory.context(CLUB, "new", question, speaker=id_, max_tokens=4_000)
    assert context.text.startswith(f'<profile about="{NAMES[who]}">')
    assert club.settings.context.merge or f'<today about="{NAMES[who]}">' in context.text
    yield "profile", memory.profile(CLUB, id_).text
    yield from ((section, " ".join(part.text for part in context.section(section))) for section in SECTIONS)
    yield "day", memory.today(CLUB, id_).text
    for back in range(1, DAYS):
        yield "day", memory.day(CLUB, TODAY.date() - timedelta(days=back), id_).text
    yield "week", memory.week(CLUB, id_).text
    yield from (("life", memory.period(CLUB, each, id_).text) for each in ("life", f"{TODAY:%Y}", f"{TODAY:%Y-%m}"))


def test_nobody_gets_the_words_of_others(club: Stack) -> None:
    """A word is somebody's who said it or whom it is about; in a profile, only of whom it is about."""
    about, said = defaultdict[int, set[str]](set), defaultdict[int, set[str]](set)
    for says, word, _, whom in planted():
        said[says].add(word)
        for who in whom:
            about[who].add(word)
    strange, found = list[tuple[str, str, str]](), defaultdict[str, set[tuple[int, str]]](set)
    for who in range(len(NAMES)):
        for name, text in views(club, who, "What happened with the cellar and the hut?"):
            words = {word for word in WORDS if word in text.lower()}
            mine = about[who] if name == "profile" and not club.settings.context.merge else about[who] | said[who]
            strange += [(name, NAMES[who], word) for word in words - mine]
            found[name] |= {(who, word) for word in words & about[who]}
    assert strange == []
    everything = {(who, word) for who, words in about.items() for word in words}
    assert found["day"] == everything and len(found["week"]) == (DAYS - 1) * len(everything) // DAYS
    assert len(found["profile"]) >= 3 * len(NAMES)
