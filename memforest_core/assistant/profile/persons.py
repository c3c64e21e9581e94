"""Whom a name means in a memory, and notes: statements that somebody wants remembered."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from memforest_core.assistant.rows import PeopleRows
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.domain.people import KnownPerson, People
from memforest_core.domain.text import normalize_name
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef


def person_named(
    owner: str, forest: ForestRef | None, speakers: Iterable[tuple[str, str]], about: str | None
) -> KnownPerson:
    """Whom ``about`` means: an id, a name, a nickname or a mention; None is the owner.

    ``speakers`` are pairs of id and name, the newest names first. A name that several speakers have is nobody's: then
    it is a name alone. Raises InvalidInput for a name that is none.
    """
    people = People(owner, speakers, forest.display_name if forest is not None else None)
    if about is None:
        return people.owner
    about = checked_name(about, "about")
    known = people.who(about)
    if known is not None:
        return known
    return KnownPerson(about, (about,), frozenset({normalize_name(about)} - {""}), ids=(about,))


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
        forest = rows.find_forest(owner)
        speakers = rows.speakers(forest.id) if forest is not None else ()
    person = person_named(owner, forest, speakers, about)
    if not person.owner:
        turn |= {"speaker_id": person.id, "name": person.name}
    return turn
