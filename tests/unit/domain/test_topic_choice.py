"""Which topic a turn belongs to: the current one, one that it returns to, or a new one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from memforest_core.domain.topic_choice import Before, choose

A, B = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("role", "text", "hours", "cosines", "wanted"),
    [
        ("user", "My tomatoes are ill", 0.1, [(A, 0.3), (B, 0.2)], A),
        ("user", "My tomatoes are ill", 0.1, [(A, 0.3), (B, 0.5)], B),
        ("user", "My tomatoes are ill", 0.1, [(A, 0.48), (B, 0.5)], A),
        ("user", "My tomatoes are ill", 0.1, [(A, 0.01), (B, 0.2)], None),
        ("user", "My tomatoes are ill", 0.1, [], A),
        ("user", "btw my tomatoes are ill", 0.1, [(A, 0.6), (B, 0.2)], None),
        ("user", "btw my tomatoes are ill", 0.1, [(A, 0.6), (B, 0.3)], B),
        *(("user", text, 0.1, [(A, 0.0), (B, 0.9)], A) for text in ("6 months.", "ok", "and the other one?")),
        ("assistant", "Try a fence.", 0.1, [(A, 0.0), (B, 0.9)], A),
        ("user", "My tomatoes are ill", 100, [(A, 0.4), (B, 0.2)], None),
        ("user", "My tomatoes are ill", 100, [(A, 0.1), (B, 0.6), (B, 0.5), (B, 0.5), (B, 0.0)], B),
        ("user", "My tomatoes are ill", 100, [(A, 0.9), (A, 0.0), (A, 0.0)], A),
    ],
)
def test_a_turn_stays_returns_or_begins(
    role: str, text: str, hours: float, cosines: list[tuple[UUID, float]], wanted: UUID | None
) -> None:
    before = Before(A, NOW - timedelta(hours=hours))
    assert choose(role, text, NOW, before, cosines, 0.4).topic == wanted


def test_the_first_turn_of_an_owner_begins_a_topic() -> None:
    assert choose("user", "My tomatoes are ill", NOW, None, [], 0.4).topic is None
    assert choose("user", "My tomatoes are ill", NOW, None, [(B, 0.8)], 0.4).topic == B


def test_a_similarity_is_at_most_one() -> None:
    assert choose("user", "My tomatoes are ill", NOW, None, [(B, 1.00005)], 0.4).similarity == 1.0
