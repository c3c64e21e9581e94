"""What can be put into a window: references to facts and turns."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId, ForestId, SessionId, session_id
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.window.rows import Reference, WindowRows

MAX_ITEMS = 1_000
"""Items that one call puts in."""

ItemInput = Evidence | UUID | str | tuple[str, str]
"""Evidence, a fact's id, or a session's and a turn's id."""


def references(rows: WindowRows, forest: ForestId, given: Sequence[UUID | tuple[str, str]]) -> list[Reference]:
    """What is there of what was given, in its order."""
    facts = rows.facts(forest, [each for each in given if isinstance(each, UUID)])
    turns: dict[str, list[str]] = {}
    for each in given:
        if not isinstance(each, UUID):
            turns.setdefault(each[0], []).append(each[1])
    places: dict[tuple[str, str], tuple[SessionId, int]] = {}
    for session, ids in turns.items():
        own = session_id(forest, session)
        places |= {(session, turn): (own, at) for turn, at in rows.ordinals(own, ids).items()}
    found: list[Reference] = []
    for each in given:
        if isinstance(each, UUID):
            found += [Reference(FactId(each))] if each in facts else []
        elif each in places:
            found.append(Reference(None, *places[each]))
    return found


def named_items(items: object) -> list[UUID | tuple[str, str]]:
    """The facts and turns that a caller's items name, in their order. Raises InvalidInput."""
    if isinstance(items, str) or not isinstance(items, Sequence) or len(items) > MAX_ITEMS:
        raise InvalidInput(f"Give at most {MAX_ITEMS} items as a list.", code="invalid_items")
    return [each for item in items for each in _named(item)]


def _named(item: object) -> list[UUID | tuple[str, str]]:
    """What an item names: facts by their ids, turns by the ids of session and turn. Raises InvalidInput."""
    match item:
        case Evidence():
            if item.kind is EvidenceKind.FACT and item.fact_ids:
                return [UUID(str(fact)) for fact in item.fact_ids[:1]]
            return [(item.session_id, turn) for turn in item.turn_ids]
        case UUID():
            return [item]
        case (str() as session, str() as turn):
            return [(checked_name(session, "session_id"), checked_name(turn, "turn_id"))]
        case str():
            try:
                return [UUID(item)]
            except ValueError:
                pass
    raise InvalidInput(
        "Give items as evidence, as ids of facts, or as pairs of a session's and a turn's id.", code="invalid_items"
    )
