"""Whom a name means."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.assistant.profile.forgetting import read_words
from memforest_core.assistant.profile.persons import person_named
from memforest_core.domain.ids import ForestId
from memforest_core.errors import InvalidInput
from memforest_core.store.owners import ForestRef

FOREST = ForestRef(ForestId(UUID(int=1)), "u1", "UTC", display_name="Alice")
SPEAKERS = [("u1", "Alice"), ("u1", "Ali"), ("u7", "Bob"), ("u7", "Bobby")]


OWN, HIS = frozenset({"u1", "alice", "ali"}), frozenset({"u7", "bob", "bobby"})


@pytest.mark.parametrize(
    ("about", "id_", "keys"),
    [(None, "u1", OWN), ("Alice", "u1", OWN), ("ali", "u1", OWN), ("u7", "u7", HIS), ("bobby", "u7", HIS)],
)
def test_a_speaker_is_found_by_id_and_by_any_name(about: str | None, id_: str, keys: frozenset[str]) -> None:
    person = person_named("u1", FOREST, SPEAKERS, about)
    assert (person.owner, person.id, person.keys) == (id_ == "u1", id_, keys)


def test_anybody_else_is_a_name() -> None:
    person = person_named("u1", FOREST, SPEAKERS, "Dr. Zoe Miller")

    assert (person.id, person.name, person.keys) == ("Dr. Zoe Miller", "Dr. Zoe Miller", frozenset({"zoe miller"}))
    with pytest.raises(InvalidInput):
        person_named("u1", FOREST, SPEAKERS, "")


def test_words_tell_whom_and_what_they_mean() -> None:
    mine = read_words("where I work", FOREST, SPEAKERS)
    assert {"job", "employer"} <= mine.attributes and mine.bare
    assert "alice" in mine.people and mine.others == {"u7", "bob", "bobby"}

    his = read_words("where Bob works", FOREST, SPEAKERS)
    assert his.people == {"u7", "bob", "bobby"} and his.names == {"bob"}

    words = read_words("that I moved to Miami in May", FOREST, SPEAKERS)
    assert (words.attributes, words.names, words.bare) == (frozenset(), frozenset({"miami"}), False)
