"""The same conversations about other people at another time: what was tuned to names or dates falls apart on them.

Names: those of the speakers, and every given name of a list, wherever they stand as a word: with a possessive, in
lower case for a speaker's name, in upper case. Each conversation has replacements of its own. Left as they are:
surnames and pet names that are on no list, nicknames of speakers, places.

Dates: all sessions and asking times move by the same number of years of 52 weeks, so that weekdays, months and seasons
that somebody names still fit, but for a few days at their edges. In texts move dates with a day and a month ("8 May
2023", "May 8th", "2023-05-08", "8/5/2023" is left: its order is not known), months with a year ("May 2023", as its
15th) and years after a preposition ("in 2022", as its 1 July). Left as they are: months alone, seasons, holidays, and
everything relative.
"""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn

_NAMES = """Agnes Albert Alma Anders Anita Arthur Astrid Barbara Beatrice Bernard Bianca Boris Camila Carmen Cecil Clara
Conrad Cornelia Dagmar Dario Delia Dimitri Dolores Edgar Edith Elena Elias Elsa Emil Enzo Esther Felix Fiona Flora
Frida Gavin Gerda Gideon Gloria Gregor Gustav Harriet Hector Helga Hugo Ida Ingrid Irene Isaac Ivan Jasper Johanna
Judith Julius Karin Kaspar Katrin Lars Leona Leopold Lorenzo Lucia Ludwig Magda Marcel Marta Matilda Maurice Mira
Mohammed Nadia Nestor Nikolai Noemi Olga Oscar Ottilie Otto Pablo Petra Philippa Quentin Rafael Ramona Regina
Reinhard Rita Roland Rosalind Rufus Sabine Salome Samir Selma Sigrid Silvia Stefan Svetlana Tamara Theodor Tobias
Ulrich Ursula Valentin Vera Viktor Wanda Werner Wilma Yusuf Yvonne Zelda Zoltan"""
GIVEN_NAMES = tuple(_NAMES.split())
MAX_YEARS = 5
"""Near enough that no year looks odd."""
YEAR = timedelta(weeks=52)
"""A year of whole weeks."""

_MONTHS = [name for name in calendar.month_name if name]
_NAMED = {name.casefold(): number for number, name in enumerate(_MONTHS, 1)} | {
    name[:3].casefold(): number for number, name in enumerate(_MONTHS, 1)
}
_NAMED["sept"] = 9
_MONTH = "(?P<month>" + "|".join([*_MONTHS, *(f"{name[:3]}" for name in _MONTHS), "Sept"]) + r")\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?P<suffix>st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DATE = re.compile(
    "|".join(
        (
            r"\b(?P<iso>(?:19|20)\d\d-[01]\d-[0-3]\d)\b",
            rf"\b{_DAY}(?P<of> of)? {_MONTH}(?P<comma>,?) {_YEAR}\b".replace("(?P<", "(?P<a_"),
            rf"\b{_MONTH} {_DAY}(?P<comma>,?) {_YEAR}\b".replace("(?P<", "(?P<b_"),
            rf"\b{_DAY}(?P<of> of)? {_MONTH}(?![\w'])".replace("(?P<", "(?P<c_"),
            rf"\b{_MONTH} {_DAY}(?![\w:%])".replace("(?P<", "(?P<d_"),
            rf"\b{_MONTH}(?P<comma>,?) {_YEAR}\b".replace("(?P<", "(?P<e_"),
            rf"\b(?P<before>in|since|of|until|by|from|during|year) {_YEAR}\b(?!-)".replace("(?P<", "(?P<f_"),
        )
    ),
    re.IGNORECASE,
)
_ALWAYS = {"a": "year", "b": "year", "c": "month", "d": "month", "e": "year", "f": "year"}
"""For each form of a date a group that it always has."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What one conversation's texts become."""

    names: Callable[[str], str]
    days: int

    def text(self, text: str, near: datetime) -> str:
        """A text with other names and dates; a date without a year is that nearest to ``near``."""
        return self.names(_shifted(text, self.days, near))


def transformed(data: Dataset, seed: int) -> Dataset:
    """All conversations with other names and at another time; the same seed gives the same."""
    rng = random.Random(f"{seed}/transform")
    days = rng.randint(1, MAX_YEARS) * YEAR.days
    return tuple(_conversation(one, Changed(_renaming(one, rng), days)) for one in data)


def _conversation(one: Conversation, changed: Changed) -> Conversation:
    last = max(session.started_at for session in one.sessions)
    sessions = tuple(_session(session, changed) for session in one.sessions)
    return Conversation(one.id, sessions, tuple(_question(question, changed, last) for question in one.questions))


def _session(session: Session, changed: Changed) -> Session:
    shift = timedelta(days=changed.days)
    turns = tuple(_turn(turn, session.started_at, changed) for turn in session.turns)
    return replace(session, started_at=session.started_at + shift, turns=turns)


def _turn(turn: Turn, started: datetime, changed: Changed) -> Turn:
    return replace(
        turn,
        speaker=changed.names(turn.speaker),
        text=changed.text(turn.text, turn.at or started),
        at=turn.at + timedelta(days=changed.days) if turn.at else None,
    )


def _question(question: Question, changed: Changed, last: datetime) -> Question:
    near = question.asked_at or last
    return replace(
        question,
        text=changed.text(question.text, near),
        answer=changed.text(question.answer, near),
        asked_at=question.asked_at + timedelta(days=changed.days) if question.asked_at else None,
        excerpts={turn: changed.text(text, near) for turn, text in question.excerpts.items()},
    )


def _renaming(one: Conversation, rng: random.Random) -> Callable[[str], str]:
    """Replaces the names of one conversation."""
    speakers = {word for _, turn in one.turns() for word in re.findall(r"[^\W\d_]{2,}", turn.speaker)}
    speakers -= {turn.role for _, turn in one.turns()}
    texts = [turn.text for _, turn in one.turns()] + [question.text for question in one.questions]
    spoken = {word for text in texts for word in re.findall(r"[^\W\d_]+", text)}
    old = sorted(speakers | spoken.intersection(GIVEN_NAMES))
    free = [name for name in GIVEN_NAMES if name not in spoken and name not in speakers]
    new = dict(zip(old, rng.sample(free, len(old)), strict=True))
    return replacing(new, {name.lower() for name in speakers})


def replacing(new: Mapping[str, str], small: Collection[str]) -> Callable[[str], str]:
    """Puts other names in the place of those that stand in a text as a word, also in upper case.

    Those that are ``small`` when written in lower case are replaced in lower case too.
    """
    if not new:
        return lambda text: text
    forms = dict(new)
    for name, other in new.items():
        forms[name.upper()] = other.upper()
        if name.lower() in small:
            forms[name.lower()] = other.lower()
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) + r")\b")
    return lambda text: pattern.sub(lambda found: forms[found.group()], text)


def _shifted(text: str, days: int, near: datetime) -> str:
    return _DATE.sub(lambda found: _moved(found, timedelta(days=days), near.date()), text)


def _moved(found: re.Match[str], shift: timedelta, near: date) -> str:
    """One written date, later by ``shift`` and in the same form; what is no date stays."""
    whole = found.group()
    if found["iso"]:
        try:
            return (date.fromisoformat(whole) + shift).isoformat()
        except ValueError:
            return whole
    form = next(form for form, always in _ALWAYS.items() if found[f"{form}_{always}"])
    groups = {name[2:]: value or "" for name, value in found.groupdict().items() if name.startswith(f"{form}_")}
    return _reformed(groups, form, shift, near) or whole


def _reformed(groups: dict[str, str], form: str, shift: timedelta, near: date) -> str | None:
    """The date of these groups, shifted; None when there is no such day."""
    if form == "f":
        return f"{groups['before']} {(date(int(groups['year']), 7, 1) + shift).year}"
    if "year" not in groups and groups["month"].islower() and not groups["suffix"]:
        # "You may 30 times" is no date.
        return None
    month = _NAMED[groups["month"].casefold()]
    if form == "e":
        moved = date(int(groups["year"]), month, 15) + shift
        return f"{_month(moved, groups['month'])}{groups['comma']} {moved.year}"
    try:
        years = [int(groups["year"])] if "year" in groups else [near.year - 1, near.year, near.year + 1]
        there = min((date(year, month, int(groups["day"])) for year in years), key=lambda one: abs(one - near))
    except ValueError:
        return None
    moved = there + shift
    day = f"{moved.day}{_ordinal(moved.day) if groups['suffix'] else ''}"
    name = _month(moved, groups["month"])
    year = f"{groups['comma']} {moved.year}" if "year" in groups else ""
    return f"{day}{groups['of']} {name}{year}" if "of" in groups else f"{name} {day}{year}"


def _month(moved: date, like: str) -> str:
    """A month's name, as long as the one it replaces, and in the same case."""
    name = _MONTHS[moved.month - 1]
    # "May" is its own short form.
    short = len(like) <= 4 and like.casefold() not in {"may", "june", "july"}
    name = name[:3] if short else name
    return name.lower() if like.islower() else name


def _ordinal(day: int) -> str:
    return "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
