"""What callers name for a window: evidence, facts by their ids, turns by the ids of session and turn."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput

MAX_ITEMS = 1_000
"""Items that one call puts in."""

ItemInput = Evidence | UUID | str | tuple[str, str]
"""Evidence, a fact's id, or a session's and a turn's id."""


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
