"""The sentence of a state as a profile shows it: its own clause alone, with its day by the calendar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from zoneinfo import ZoneInfo

from memforest_core.domain.evidence import day_label
from memforest_core.domain.facts import Statement
from memforest_core.domain.relative_dates import phrases_resolved

_NOW = re.compile(r"(?:,?\s+(?:right |just )?now)(?P<end>[.!]*)$", re.IGNORECASE)
_JOINT = re.compile(r"(?:[\s,;:–—-]|\b(?:and|but|so|then|also|plus)\b)+$", re.IGNORECASE)
_YEAR = re.compile(r"\b\d{4}\b")


def shown_text(statement: Statement, others: Iterable[str], zone: ZoneInfo) -> str:
    """The text without the clauses that are ``others``, the texts of states that the same sentence says. A day that is
    counted from the day of the turn ("last week") gets its date behind it; "now" is left out at the end."""
    text = statement.text
    for other in others:
        cut = _without_clause(text, other, statement.subject)
        text = cut if statement.value.casefold() in cut.casefold() else text
    text = _NOW.sub(r"\g<end>", text.rstrip(" ,;")) or statement.text
    meant = phrases_resolved(text, statement.mentioned_at, zone.key)
    for phrase, span in meant.items():
        own = statement.time if len(meant) == 1 and statement.time.known else span
        if not _YEAR.search(phrase):
            text = text.replace(phrase, f"{phrase} ({day_label(own, zone)})", 1)
    return text


def _without_clause(text: str, other: str, subject: str) -> str:
    """The text up to the clause that another text is, where that is the end of it."""
    clause = other.rstrip(" .,;!")
    for said in (clause, clause.removeprefix(f"{subject} ")):
        found = re.search(rf"(?<!\w){re.escape(said)}(?!\w)", text)
        if said and found is not None:
            joint = _JOINT.search(text, 0, found.start())
            before = text[: joint.start()] if joint else ""
            return f"{before}." if before and text.endswith(".") else before or text
    return text
