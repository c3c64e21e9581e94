"""Which entity scopes a fact joins: its subject first, each name once, the owner under one roof."""

from __future__ import annotations

import pytest

from memforest_core.reduce.routing.entities import MAX_ENTITIES, EntityScope, entity_scopes
from tests.support.builders import statement

PEOPLE = frozenset({"bob", "ann"})


def scopes(subject: str, *entities: str, owner: str = "user-7") -> tuple[EntityScope, ...]:
    return entity_scopes(statement(subject=subject, entities=entities), owner, frozenset({"bob", "robert"}), PEOPLE)


OWNER = EntityScope("user 7", "user-7", True)


def test_the_subject_comes_first_and_then_what_is_named() -> None:
    assert scopes("Ann", "Kyoto", "UC Davis") == (
        EntityScope("ann", "Ann", True),
        EntityScope("kyoto", "Kyoto", False),
        EntityScope("uc davis", "UC Davis", False),
    )


@pytest.mark.parametrize("name", ["Bob", "bob's", "Robert", "Mr. Robert"])
def test_every_name_of_the_owner_leads_to_the_owners_tree(name: str) -> None:
    assert scopes(name) == (OWNER,)
    assert scopes("Kyoto", name, "Bob") == (EntityScope("kyoto", "Kyoto", False), OWNER)


def test_human_speakers_are_people_and_others_are_candidates() -> None:
    assert [scope.person for scope in scopes("Bob", "Ann", "Rex")] == [True, True, False]


def test_a_name_counts_once_however_it_is_written() -> None:
    assert scopes("The Golden Gate", "Golden Gate", "GOLDEN GATE", "golden gate's") == (
        EntityScope("golden gate", "The Golden Gate", False),
    )


@pytest.mark.parametrize("nothing", ["", "  ", "?!", "—"])
def test_a_subject_that_names_nothing_joins_nothing(nothing: str) -> None:
    assert scopes(nothing) == ()
    assert [scope.key for scope in scopes(nothing, "Kyoto", nothing)] == ["kyoto"]


def test_a_long_list_of_names_is_not_about_each_of_them() -> None:
    found = scopes("Bob", *[f"Town {number}" for number in range(20)])

    assert len(found) == MAX_ENTITIES
    assert found[0] == OWNER


@pytest.mark.parametrize("owner", ["42", "…", "字"])
def test_an_owner_has_a_key_whatever_the_id(owner: str) -> None:
    [scope] = scopes("Bob", owner=owner)

    assert scope.key
    assert (scope.label, scope.person) == (owner, True)
