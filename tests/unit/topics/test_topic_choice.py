"""Which topic a turn belongs to: the current one, one that it returns to, or a new one."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from memforest_core.assistant.topics.choice import Said, choose, follows

GARDEN, HEATING, BANK = (UUID(int=n) for n in (1, 2, 3))
AXES = {GARDEN: 0, HEATING: 1, BANK: 2}
SHARED = 3
"""The direction that texts of all topics have in common."""


def towards(topic: UUID, common: float = 0.0) -> np.ndarray:
    made = np.zeros(4, np.float32)
    made[AXES[topic]], made[SHARED] = 1.0, common
    return made / np.linalg.norm(made)


def earlier(common: float = 0.0) -> list[Said]:
    said = {GARDEN: "The tomatoes need water.", HEATING: "The boiler blinks.", BANK: "The mortgage ends in May."}
    return [Said(topic, each, towards(topic, common)) for topic, text in said.items() for each in (text, "", "", "")]


@pytest.mark.parametrize(
    ("text", "towards_topic", "current", "wanted"),
    [
        ("What else could we do about that thing here?", GARDEN, None, GARDEN),
        ("What else could we do about that thing here?", HEATING, GARDEN, HEATING),
        ("Now the boiler blinks yellow.", None, None, HEATING),
        ("Somebody called again this morning.", None, None, None),
        ("Somebody called again this morning.", None, BANK, BANK),
        ("By the way, somebody called this morning.", None, BANK, None),
        ("By the way, now the boiler blinks yellow.", None, BANK, HEATING),
        ("By the way, the mortgage ended.", BANK, BANK, BANK),
    ],
)
def test_a_turn_stays_returns_or_begins(
    text: str, towards_topic: UUID | None, current: UUID | None, wanted: UUID | None
) -> None:
    vector = None if towards_topic is None else towards(towards_topic)
    assert choose(text, vector, earlier(), current, 0.3).topic == wanted


def test_what_all_topics_have_in_common_speaks_for_none() -> None:
    """Given a model whose cosines are all above 0.9, then a turn that is like all topics begins one."""
    common = np.zeros(4, np.float32)
    common[SHARED] = 1.0
    assert choose("Somebody called this morning.", common, earlier(4.0), None, 0.3).topic is None
    assert choose("Somebody called this morning.", towards(BANK, 4.0), earlier(4.0), None, 0.3).topic == BANK


def test_a_similarity_is_at_most_one_and_missing_vectors_are_no_error() -> None:
    found = choose("The mortgage ends in May.", towards(BANK), earlier(), None, 0.3)
    assert found == choose("The mortgage ends in May.", towards(BANK), earlier(), BANK, 0.3)
    assert found.similarity == 1.0
    other = [Said(GARDEN, "Tomatoes.", np.ones(7, np.float32)), Said(BANK, "The mortgage ends.", None)]
    assert choose("The mortgage ends in May.", towards(BANK), other, None, 0.05).topic == BANK
    assert choose("Somebody called.", None, [], None, 0.3).topic is None


@pytest.mark.parametrize(
    ("role", "text", "wanted"),
    [
        *(("user", text, True) for text in ("6 months.", "ok thanks", "and the other one?", "the red one", "好的")),
        *(("user", text, False) for text in ("My tomatoes are ill", "boiler blinking", "番茄生病了")),
        ("assistant", "My tomatoes are ill.", True),
    ],
)
def test_replies_and_assistants_follow(role: str, text: str, wanted: bool) -> None:
    assert follows(role, text) == wanted
