"""Search in everything that a key reaches: owners, sessions, facts, turns."""

from __future__ import annotations

from collections.abc import Sequence

from memforest_core.service.explorer.finding_rows import SEARCHED_FACTS, SEARCHED_SESSIONS, FindingRows, searched_words
from memforest_core.service.explorer.page_requests import Outcome, Shown, Visit

FOUND = 8
"""Of each kind."""
READ_AT_ONCE = 1_000


def search(visit: Visit) -> Outcome:
    """What has all words of ``q``; without words, the sessions that were written to last."""
    text = visit.parameter("q") or ""
    words, (owners, cut) = searched_words(text), reached(visit)
    with FindingRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        found = rows.search(words, owners, FOUND) if words else None
        newest = () if words else rows.newest(owners, FOUND)
    bounds = {"sessions": SEARCHED_SESSIONS, "facts": SEARCHED_FACTS, "owners": READ_AT_ONCE, "cut": cut}
    return Shown("search.html", {"q": text, "words": words, "found": found, "newest": newest, "bounds": bounds})


def reached(visit: Visit) -> tuple[Sequence[str] | None, bool]:
    """The owners that the key reaches, None for all of them, and whether there may be more than these."""
    caller = visit.caller
    if caller.owners is None:
        return None, False
    reading = visit.memory.services.reading
    found = reading.owners(caller.tenant, prefix=caller.owners_begin, limit=READ_AT_ONCE)
    return [each.owner for each in found.items if caller.may_ask_of(each.owner)], found.cursor is not None
