"""A note: one statement that somebody wants remembered, as a turn of a session of its own."""

from __future__ import annotations

from uuid import uuid4

from memforest_core.assistant.profile.people import person_named
from memforest_core.assistant.profile.rows import PeopleRows
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.store.engine import Engine

TURN = "note"
"""The id of a note's only turn."""


def note_id() -> str:
    """The id of a new note's session."""
    return f"note-{uuid4()}"


def note_turn(engine: Engine, tenant: TenantId, owner: str, text: str, about: str | None, at: object) -> TurnInput:
    """The turn that says ``text`` at a time ``at`` (now when None) as if whom it is about had said it: "I" is them.

    ``about`` is a speaker's id or name, or the name of somebody who has not spoken; None is the owner. Raises
    InvalidInput, StoreUnavailable.
    """
    owner = checked_name(owner, "owner")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("Give the text of the note: a sentence such as I moved to Miami.", code="empty_note")
    turn: TurnInput = {"id": TURN, "role": "user", "content": text}
    if at is not None:
        turn["timestamp"] = at  # type: ignore[typeddict-item]  # what is accepted is checked where turns are parsed
    if about is None:
        return turn
    with PeopleRows.opened(engine, tenant) as rows:
        forest = rows.forest(owner)
        speakers = rows.speakers(forest.id) if forest is not None else ()
    person = person_named(owner, forest, speakers, about)
    if not person.owner:
        turn |= {"speaker_id": person.id, "name": person.name}
    return turn
