"""Which scopes a fact joins: entities by their names, scenes by cosine with a bonus for closeness in time, gated by domain, capped."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.facts import Origin, Statement
from memforest_core.domain.ids import TreeId
from memforest_core.domain.people import KnownPerson, People
from memforest_core.ingest.reduce.routing import (
    DAY_US,
    MAX_ENTITIES,
    EntityScope,
    Scene,
    SceneMap,
    continued,
    entity_scopes,
    scope_of,
    subject_key,
)
from memforest_core.models.calls import Vectors
from memforest_core.settings import ReduceSettings
from tests.harness.builders import statement

RULES = ReduceSettings()
Fact = tuple[Vectors, str, tuple[int, int]]
FAR = 1_000 * DAY_US
"""A time at which no scene gets a bonus for closeness."""


def axis(number: int) -> Vectors:
    return np.array([number == each for each in range(4)], np.float32)


def leaning(**cosines: float) -> Vectors:
    """A unit vector with these cosines with the axes a, b and c; the rest points elsewhere."""
    parts = [cosines.get(name, 0.0) for name in "abc"]
    return np.array([*parts, math.sqrt(max(0.0, 1 - sum(part * part for part in parts)))], np.float32)


def scene(number: int, direction: int, size: int = 5, domain: str = "home", at: int = 0) -> Scene:
    return Scene(TreeId(UUID(int=number)), domain, axis(direction) * size, size, at, at)


def fact(vector: Vectors, domain: str = "home", at: int = FAR) -> Fact:
    return vector, domain, (at, at)


def new_ids() -> Callable[[], TreeId]:
    numbers = iter(range(100, 1_000))
    return lambda: TreeId(UUID(int=next(numbers)))


def scene_map(*scenes: Scene, rules: ReduceSettings = RULES) -> SceneMap:
    return SceneMap(scenes, rules, new_ids())


def route(found: Fact, *scenes: Scene, rules: ReduceSettings = RULES) -> list[int]:
    """The numbers of the scenes a fact goes to; a spawned one is 100."""
    return [chosen.id.int for chosen in scene_map(*scenes, rules=rules).route(*found)]


def test_the_first_fact_spawns_a_scene_of_its_domain() -> None:
    scenes = scene_map()

    [made] = scenes.route(*fact(axis(0), "pets", at=7))

    assert scenes.scenes == [made]
    assert (made.domain, made.size, made.start, made.end, made.changed) == ("pets", 1, 7, 7, True)
    assert np.array_equal(made.total, axis(0))


@pytest.mark.parametrize(
    ("cosine", "goes_to"),
    [(1.0, 1), (0.71, 1), (0.69, 1), (0.59, 1), (0.57, 100), (0.0, 100), (-1.0, 100)],
    ids=["same", "assigned", "weak", "just weak", "below", "unrelated", "opposite"],
)
def test_a_fact_goes_to_the_best_scene_or_spawns_its_own(cosine: float, goes_to: int) -> None:
    """Given a small scene, then from 0.58 a fact joins it."""
    vector = np.array([cosine, 0, 0, math.sqrt(1 - cosine * cosine)], np.float32)

    assert route(fact(vector), scene(1, 0)) == [goes_to]


@pytest.mark.parametrize(
    ("size", "cosine", "goes_to"),
    [(29, 0.65, 1), (30, 0.65, 100), (30, 0.75, 1), (59, 0.75, 1), (60, 0.75, 100), (61, 1.0, 100)],
    ids=["weak, under half", "weak, half full", "clear, half full", "clear, last place", "full", "over"],
)
def test_a_scene_takes_weak_facts_to_half_of_its_cap_and_clear_ones_to_all_of_it(
    size: int, cosine: float, goes_to: int
) -> None:
    assert route(fact(leaning(a=cosine)), scene(1, 0, size)) == [goes_to]


@pytest.mark.parametrize(
    ("first", "second", "goes_to"),
    [(0.705, 0.705, [1, 2]), (0.709, 0.69, [1]), (0.69, 0.68, [1]), (0.68, 0.69, [2]), (0.5, 0.5, [100])],
    ids=["both clear", "second weak", "both weak", "the better of two weak", "neither"],
)
def test_the_second_best_is_joined_too_if_it_is_as_clear(first: float, second: float, goes_to: list[int]) -> None:
    assert route(fact(leaning(a=first, b=second)), scene(1, 0), scene(2, 1)) == goes_to


def test_a_third_is_never_joined() -> None:
    close = ReduceSettings(scene_assign=0.5, scene_weak=0.4)

    assert len(route(fact(leaning(a=0.56, b=0.57, c=0.58)), scene(1, 0), scene(2, 1), scene(3, 2), rules=close)) == 2


def test_a_scene_that_is_full_is_left_out_and_the_next_one_takes_its_place() -> None:
    """A scene that went on in another one is left aside, so that each further fact does not found one of its own."""
    assert route(fact(leaning(a=0.706, b=0.705)), scene(1, 0, 60), scene(2, 1)) == [2]
    assert route(fact(leaning(a=0.706, b=0.705)), scene(1, 0), scene(2, 1, 60)) == [1]


@pytest.mark.parametrize(
    ("of_fact", "of_scene", "goes_to"),
    [("home", "home", 1), ("home", "work", 100), ("", "work", 100), ("home", "", 100), ("", "", 1)],
    ids=["same", "other", "fact without", "scene without", "both without"],
)
def test_a_fact_joins_scenes_of_its_own_domain_only(of_fact: str, of_scene: str, goes_to: int) -> None:
    assert route(fact(axis(0), of_fact), scene(1, 0, domain=of_scene)) == [goes_to]


@pytest.mark.parametrize(("days", "bonus"), [(0, 0.08), (22.5, 0.04), (45, 0.0), (46, 0.0), (-22.5, 0.04), (-45, 0.0)])
def test_closeness_in_time_adds_up_to_the_bonus_within_45_days(days: float, bonus: float) -> None:
    """Given a scene on day 100, then a fact so many days after it needs that much less cosine to be assigned."""
    at = round((100 + days) * DAY_US)

    def goes_to(cosine: float) -> list[int]:
        return route(fact(leaning(a=cosine), at=at), scene(1, 0, 40, at=100 * DAY_US))

    assert goes_to(0.70 - bonus + 0.005) == [1]
    assert goes_to(0.70 - bonus - 0.005) == [100]


def test_a_scene_grows_by_what_it_takes() -> None:
    taken = scene(1, 0, 1, at=FAR)

    scene_map(taken).route(*fact(leaning(a=0.8), at=FAR + 5))

    assert (taken.size, taken.start, taken.end, taken.changed) == (2, FAR, FAR + 5, True)
    assert taken.total == pytest.approx(axis(0) + leaning(a=0.8))


def test_the_next_fact_is_compared_with_the_grown_centroid() -> None:
    """Given a scene of one that took a fact to its side, then what lies between both is closer than before."""
    scenes = scene_map(scene(1, 0, 1))
    between = fact(leaning(a=0.66, b=0.75))
    assert route(between, scene(1, 0, 31)) == [100]

    scenes.route(*fact(leaning(a=0.8, b=0.6)))

    assert [chosen.id.int for chosen in scenes.route(*between)] == [1]
    assert scenes.scenes[0].size == 3


def test_many_scenes_can_be_spawned_in_one_batch() -> None:
    """Given more unrelated facts than the map first had room for, then each still finds its own scene again."""
    count = 70
    basis = np.eye(count, dtype=np.float32)
    scenes = SceneMap([], RULES, new_ids())
    for number in range(count):
        scenes.route(*fact(basis[number]))

    assert len(scenes.scenes) == count
    assert [scenes.route(*fact(basis[number]))[0] for number in range(count)] == scenes.scenes


def touched(*scenes: Scene) -> SceneMap:
    """Scenes that have all changed in this batch."""
    for each in scenes:
        each.changed = True
    return scene_map(*scenes)


def turned(number: int, cosine: float, size: int = 5, domain: str = "home") -> Scene:
    """A scene that has this cosine with scene 1."""
    return Scene(TreeId(UUID(int=number)), domain, leaning(a=cosine) * size, size, 0, 0)


def pairs(scenes: SceneMap) -> list[tuple[int, int]]:
    return [(stored.id.int, absorbed.id.int) for stored, absorbed in scenes.mergers()]


@pytest.mark.parametrize(
    ("other", "merged"),
    [
        (turned(2, 0.89, 4), [(1, 2)]),
        (turned(2, 0.89, 9), [(2, 1)]),
        (turned(2, 0.87), []),
        (turned(2, 0.99, domain="work"), []),
        (turned(2, 0.99, domain=""), []),
        (turned(2, 0.99, 55), [(2, 1)]),
        (turned(2, 0.99, 56), []),
    ],
    ids=["smaller", "larger", "not alike", "other domain", "unknown domain", "fits", "too large together"],
)
def test_two_scenes_of_one_domain_that_grew_together_merge_into_the_larger(
    other: Scene, merged: list[tuple[int, int]]
) -> None:
    assert pairs(touched(scene(1, 0), other)) == merged


def test_a_changed_scene_may_absorb_one_that_did_not_change() -> None:
    scenes = scene_map(scene(1, 0), turned(2, 0.99, 2))
    scenes.scenes[0].changed = True

    assert pairs(scenes) == [(1, 2)]


def test_each_scene_is_in_one_pair_and_the_closest_goes_first() -> None:
    assert pairs(touched(scene(1, 0), turned(2, 0.95, 4), turned(3, 0.99, 4))) == [(1, 3)]


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
