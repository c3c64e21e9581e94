"""An owner at a glance: profile, a year of days, current states, topics, sessions; and the page of topics."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from memforest_core.assistant.topics.records import Topic
from memforest_core.domain.text import clipped
from memforest_core.errors import InvalidInput
from memforest_core.service.explorer.charts import Year, sparkline, year_of
from memforest_core.service.explorer.finding_rows import FindingRows, TopicText
from memforest_core.service.explorer.page_requests import Outcome, Shown, Visit, href, known, listed

SESSIONS, TOPICS, CHIPS = 10, 25, 24
SIZES = 4
"""Sizes of chips, by the facts of a topic."""
WEEKS_SHOWN = 53
SPARKS = 24
"""Steps of a topic's line of activity."""
SMALL, QUOTED_CHARS = 10, 60
"""Facts of a topic that one of its sentences may stand for, and how much of it is shown."""
KEY_WORDS = "terms"
"""How a title was made that is a list of key words."""


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """A topic, and what people would call it."""

    topic: Topic
    title: str
    key_words: tuple[str, ...]
    """Where no person and no model has named it: its domain is the title, and these say more."""
    excerpt: str
    sparks: Sequence[float]
    """Facts in each step of the page's time, as a share of the most; empty when its tree has no facts yet."""
    size: int
    """1 to SIZES."""


def owner(visit: Visit) -> Outcome:
    """Profile, activity, states and topics of an owner, and the sessions, the newest first."""
    owner, cursor, memory = visit.owner(), visit.parameter("cursor"), visit.memory
    found = known(owner, memory.sessions(owner, limit=SESSIONS, cursor=cursor))
    topics = memory.topics(owner, limit=CHIPS).items if visit.may("topics", owner=owner) else ()
    with FindingRows.opened(memory.services.engine, visit.caller.tenant) as rows:
        heads = rows.begun(owner, [each.id for each in found.items])
        turns = rows.days(owner)
        chips = sorted(named(rows, owner, topics), key=lambda each: -each.topic.facts)
    return Shown(
        "owner.html",
        {
            "owner": owner,
            "tab": "/owner",
            "profile": memory.services.describer.profile(visit.caller.tenant, owner, write=False),
            "state": memory.services.inspection.forest(visit.caller.tenant, owner),
            "year": _year(turns, visit.parameter("year")),
            "dated": sum(turns.values()),
            "years": sorted({day.year for day in turns}, reverse=True),
            "chosen": visit.parameter("year"),
            "topics": chips,
            "sessions": found,
            "heads": heads,
            "more": href("/owner", owner=owner, cursor=found.cursor) if found.cursor else None,
            "earlier": cursor is not None,
            "may_forget": visit.may("lifecycle.forget", owner=owner),
        },
    )


def topics(visit: Visit) -> Outcome:
    """Topics, the one that reaches furthest in time first."""
    owner = visit.owner("topics")
    found = visit.memory.topics(owner, limit=TOPICS, cursor=visit.parameter("cursor"))
    page = listed("topics", owner, found)
    with FindingRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        return Shown(page.template, {**page.values, "named": named(rows, owner, found.items)})


def named(rows: FindingRows, owner: str, topics: Sequence[Topic]) -> list[NamedTopic]:
    """Topics with their titles, excerpts and activity over one common time."""
    texts, names = rows.topics([topic.id for topic in topics]), rows.speakers(owner)
    times = [time for text in texts.values() for time in text.times or ()]
    most = max((topic.facts for topic in topics), default=1)
    found = []
    for topic in topics:
        text = texts.get(topic.id)
        title, words = _title(topic, text, names)
        steps = sparkline(text.times, min(times), max(times), SPARKS) if text and text.times else []
        highest = max(steps, default=0) or 1
        size = 1 + round((SIZES - 1) * (topic.facts / most) ** 0.5) if most else 1
        excerpt = "" if text is None else text.summary.strip().partition("\n")[0]
        found.append(NamedTopic(topic, title, words, excerpt, [each / highest for each in steps], size))
    return found


def _title(topic: Topic, text: TopicText | None, names: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """A title, and key words where it is not one: nothing is invented. Speakers' names tell nothing of a topic.

    Without a chat model it is the domain, else the names of things among the key words, else a sentence of a small
    topic, in quotes, else key words."""
    if text is None or text.source != KEY_WORDS:
        return topic.title, ()
    every = topic.title.split(", ")
    words = [word for word in every if word.casefold() not in {*names, text.label.casefold()}] or every
    things = [
        word for word in words if word[:1].isupper() and re.search(rf"(?<=[\w,] ){re.escape(word)}\b", text.summary)
    ]
    first = text.summary.strip().partition("\n")[0]
    if text.label:
        title = text.label
    elif not things and topic.facts <= SMALL and first:
        head = clipped(first, QUOTED_CHARS)
        title = f"“{head}{'…' if head != first else ''}”"
    else:
        title = ", ".join((things or words)[:2])
    return title[:1].upper() + title[1:], tuple(word for word in words if word not in title.split(", "))


def _year(turns: Mapping[date, int], wanted: str | None) -> Year:
    """The days of a year; without one those up to the last turn. Raises InvalidInput."""
    if wanted is not None and not (wanted.isdecimal() and 1_000 <= int(wanted) <= 3_000):
        raise InvalidInput("Set year to a year, like 2024.", code="invalid_year")
    if wanted is not None:
        return year_of(turns, date(int(wanted), 1, 1), date(int(wanted), 12, 31))
    last = max(turns, default=None)
    last = last if last is not None else datetime.now(UTC).date()
    first = last - timedelta(days=last.weekday(), weeks=WEEKS_SHOWN - 1)
    return year_of(turns, first, last)
