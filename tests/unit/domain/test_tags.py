"""Tags are a few short names on one line each."""

from __future__ import annotations

import pytest

from memforest_core.domain.temperature import MAX_TAGS, checked_tags, stored_tags, tags_of, united_tags
from memforest_core.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "expected"), [([], ()), ([" work ", "home", "work"], ("work", "home")), (("one two",), ("one two",))]
)
def test_tags_are_trimmed_and_each_is_there_once(given: object, expected: tuple[str, ...]) -> None:
    assert checked_tags(given) == expected
    assert tags_of(stored_tags(expected)) == expected


@pytest.mark.parametrize(
    "given", ["work", None, [""], ["  "], ["a\nb"], ["x" * 61], [5], [str(n) for n in range(MAX_TAGS + 1)]]
)
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_tags(given)
    assert refused.value.code == "invalid_tags"


@pytest.mark.parametrize(
    ("own", "other", "expected"), [(None, None, None), ("a", None, "a"), (None, "b", "b"), ("a\nb", "b\nc", "a\nb\nc")]
)
def test_two_topics_unite_their_tags(own: str | None, other: str | None, expected: str | None) -> None:
    assert united_tags(own, other) == expected


def test_of_too_many_tags_the_first_topics_own_remain() -> None:
    own, other = (stored_tags([f"{name}{n}" for n in range(15)]) for name in "ab")
    assert tags_of(united_tags(own, other))[:15] == tags_of(own)
    assert len(tags_of(united_tags(own, other))) == MAX_TAGS
