"""Which entity scopes a fact joins: its subject first, each speaker once under the id, the owner under one roof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.facts import Origin, Statement
from memforest_core.domain.people import KnownPerson, People
from memforest_core.ingest.reduce.routing import (
    MAX_ENTITIES,
    EntityScope,
    continued,
    entity_scopes,
    scope_of,
    subject_key,
)
from tests.harness.builders import statement

NAMES = [("111", "gruzilkin"), ("111", "gruz"), ("Ann", "Ann"), ("5", "Al"), ("6", "Al")]
PEOPLE = People("user-7", [("user-7", "Bob"), ("user-7", "Robert"), *NAMES])
TEXT = "It rained."


def scopes(subject: str, *entities: str, people: People = PEOPLE) -> tuple[EntityScope, ...]:
    return entity_scopes(statement(TEXT, subject=subject, entities=entities, speaker="Florent"), people)


OWNER = scope_of(PEOPLE.owner)


def speaker(id_: str) -> KnownPerson:
    found = PEOPLE.by_id(id_)
    assert found is not None
    return found


def test_the_subject_comes_first_and_then_what_is_named() -> None:
    assert scopes("Ann", "Kyoto", "UC Davis") == (
        scope_of(speaker("Ann")),
        EntityScope("kyoto", "Kyoto"),
        EntityScope("uc davis", "UC Davis"),
    )


@pytest.mark.parametrize("name", ["Bob", "bob's", "Robert", "Mr. Robert"])
def test_every_name_of_the_owner_leads_to_the_owners_tree(name: str) -> None:
    assert scopes(name) == (OWNER,)
    assert scopes("Kyoto", name, "Bob") == (EntityScope("kyoto", "Kyoto"), OWNER)


def test_a_name_counts_once_however_it_is_written() -> None:
    assert scopes("The Golden Gate", "Golden Gate", "GOLDEN GATE", "golden gate's") == (
        EntityScope("golden gate", "The Golden Gate"),
    )


@pytest.mark.parametrize("nothing", ["", "  ", "?!", "—"])
def test_a_subject_that_names_nothing_joins_nothing(nothing: str) -> None:
    assert scopes(nothing) == ()
    assert [scope.key for scope in scopes(nothing, "Kyoto", nothing)] == ["kyoto"]


def test_a_long_list_of_names_is_not_about_each_of_them() -> None:
    found = scopes("Bob", *[f"Town {number}" for number in range(20)])

    assert len(found) == MAX_ENTITIES
    assert found[0] == OWNER


@pytest.mark.parametrize("name", ["gruz", "Gruz", "gruzilkin", "<@111>", "@gruz", "111", "gruzil"])
def test_all_names_of_a_speaker_lead_to_one_scope_under_the_id(name: str) -> None:
    assert scopes(name) == (EntityScope("111", "gruzilkin", speaker("111")),)


def test_a_name_that_two_have_is_the_tellers_own_or_nobodys() -> None:
    said = statement(TEXT, subject="Al", entities=(), speaker="Al")

    assert entity_scopes(said, PEOPLE, speaker("6")) == (scope_of(speaker("6")),)
    assert entity_scopes(said, PEOPLE) == (EntityScope("al", "Al"),)
    assert (subject_key(said, PEOPLE, speaker("6")), subject_key(said, PEOPLE)) == ("6", "al")


ADVICE = replace(statement("Rex barks.", subject="Rex", speaker="Bob"), origin=Origin.ASSISTANT)


@pytest.mark.parametrize(
    ("said", "own"),
    [
        pytest.param(statement("Bob's sister cooks.", subject="Clara", speaker="Florent"), True, id="it names them"),
        pytest.param(statement("It rained in Kyoto.", subject="", speaker="Bob"), True, id="they tell it"),
        pytest.param(statement("Gruz cooks.", subject="gruz", speaker="Bob"), False, id="of somebody else here"),
        pytest.param(statement("Rex barks.", subject="Rex", speaker="Florent"), False, id="others tell it"),
        pytest.param(ADVICE, False, id="advice"),
    ],
)
def test_the_owners_tree_takes_all_that_is_about_the_owner(said: Statement, own: bool) -> None:
    assert (OWNER in entity_scopes(said, PEOPLE)) is own


def test_the_owners_scope_is_among_the_most_that_a_fact_joins() -> None:
    towns = tuple(f"Town {number}" for number in range(20))
    found = entity_scopes(statement("Bob saw them all.", subject="Town 30", entities=towns, speaker="Florent"), PEOPLE)

    assert len(found) == MAX_ENTITIES
    assert found[-1] == OWNER


def test_a_speaker_goes_on_in_the_tree_that_is_there() -> None:
    gruz = speaker("111")

    assert continued(gruz, {}) == "111"
    assert continued(gruz, {"gruz": 3, "gruzilkin": 2, "kyoto": 9}) == "gruz"
    assert continued(gruz, {"gruz": 3, "111": 1}) == "111"
    assert continued(PEOPLE.owner, {"bob": 3}) == "user 7"
    assert continued(speaker("5"), {"al": 3}) == "5"
