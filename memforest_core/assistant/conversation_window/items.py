"""What can be put into a window: references to facts and turns."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from memforest_core.assistant.conversation_window.rows import Reference, WindowRows
from memforest_core.domain.ids import FactId, ForestId, SessionId, session_id


def references(rows: WindowRows, forest: ForestId, given: Sequence[UUID | tuple[str, str]]) -> list[Reference]:
    """What is there of what was given, in its order."""
    facts = rows.facts(forest, [each for each in given if isinstance(each, UUID)])
    turns: dict[str, list[str]] = {}
    for each in given:
        if not isinstance(each, UUID):
            turns.setdefault(each[0], []).append(each[1])
    positions: dict[tuple[str, str], tuple[SessionId, int]] = {}
    for session, ids in turns.items():
        own = session_id(forest, session)
        positions |= {(session, turn): (own, at) for turn, at in rows.ordinals(own, ids).items()}
    found: list[Reference] = []
    for each in given:
        if isinstance(each, UUID):
            found += [Reference(FactId(each))] if each in facts else []
        elif each in positions:
            found.append(Reference(None, *positions[each]))
    return found
