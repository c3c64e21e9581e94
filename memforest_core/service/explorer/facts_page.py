"""Facts: searched by words, chosen by chips, without small talk unless that is wanted. And a search in everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from memforest_core.domain.ids import ForestId
from memforest_core.domain.pages import from_cursor, page_of
from memforest_core.domain.state_names import spellings
from memforest_core.domain.turns import checked_name
from memforest_core.observe.reading.rows import fact_of
from memforest_core.recall.timeline import Speakers
from memforest_core.service.explorer.drawn_rows import SMALL_TALK, Condition, DrawnRows, has_word
from memforest_core.service.explorer.finding_rows import SEARCHED_FACTS, SEARCHED_SESSIONS, FindingRows, searched_words
from memforest_core.service.explorer.page_requests import Outcome, Shown, Visit, href
from memforest_core.store.owners import known

FACTS = 50
CHOICES = {"yes": True, "no": False}
FILTERS = ("q", "about", "attribute", "pinned", "superseded", "small")


def facts(visit: Visit) -> Outcome:
    """Facts, the one that was learned last first."""
    owner, cursor = visit.owner("facts"), visit.parameter("cursor")
    chosen = {name: visit.parameter(name) for name in FILTERS}
    words, after = searched_words(chosen["q"] or ""), from_cursor(cursor, int)
    with DrawnRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        forest = known(rows.find_forest(owner), owner)
        wanted = _wanted(rows, owner, forest.id, chosen)
        also: list[Condition] = [rows.newest(forest.id), *map(has_word, words)] if words else []
        plain = not any(chosen.values())
        hidden = rows.small_talk(forest.id, ()) if {name for name in FILTERS if chosen[name]} <= {"small"} else 0
        found = rows.facts(forest.id, after, FACTS + 1, **wanted, also=[~SMALL_TALK] if plain else also)
        sources = rows.sources([row.fact_id for row in found[:FACTS]])
        people, attributes = rows.subjects(forest.id), rows.attributes(forest.id)
    page = page_of(found, FACTS, lambda row: fact_of(row, sources), lambda row: [row.seq])
    more = href("/facts", owner=owner, cursor=page.cursor, **chosen) if page.cursor else None
    zone = ZoneInfo(forest.time_zone)
    values = {"owner": owner, "zone": zone, "tab": "/facts", "facts": page}
    values |= {"more": more, "chosen": chosen, "words": words}
    counts = {"hidden": hidden, "plain": plain, "people": people, "attributes": attributes, "searched": SEARCHED_FACTS}
    return Shown("facts.html", {**values, **counts})


def _wanted(rows: DrawnRows, owner: str, forest: ForestId, chosen: dict[str, str | None]) -> dict[str, Any]:
    """The conditions of the chips as the rows take them."""
    about, attribute = chosen["about"], chosen["attribute"]
    subjects = None
    if about is not None:
        speakers = Speakers(owner, rows.speakers(forest))
        subjects = speakers.owner_keys if about == owner else speakers.keys(checked_name(about, "about"))
    return {
        "session": None,
        "subjects": subjects,
        "attributes": None if attribute is None else spellings(checked_name(attribute, "attribute")),
        **dict.fromkeys(("since", "until")),
        **{name: CHOICES.get(chosen[name] or "") for name in ("pinned", "superseded")},
    }


FOUND = 8
"""Of each kind."""
READ_AT_ONCE = 1_000


def search(visit: Visit) -> Outcome:
    """Owners, sessions, facts and turns with all words of ``q``; without words, the sessions written to last."""
    text = visit.parameter("q") or ""
    words, (owners, cut) = searched_words(text), _reached(visit)
    with FindingRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        found = rows.search(words, owners, FOUND) if words else None
        newest = () if words else rows.newest(owners, FOUND)
    bounds = {"sessions": SEARCHED_SESSIONS, "facts": SEARCHED_FACTS, "owners": READ_AT_ONCE, "cut": cut}
    return Shown("search.html", {"q": text, "words": words, "found": found, "newest": newest, "bounds": bounds})


def _reached(visit: Visit) -> tuple[Sequence[str] | None, bool]:
    """The owners that the key reaches, None for all of them, and whether there may be more than these."""
    caller = visit.caller
    if caller.owners is None:
        return None, False
    reading = visit.memory.services.reading
    found = reading.owners(caller.tenant, prefix=caller.owners_begin, limit=READ_AT_ONCE)
    return [each.owner for each in found.items if caller.may_ask_of(each.owner)], found.cursor is not None
