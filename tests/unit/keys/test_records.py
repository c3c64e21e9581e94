"""Which owners a key's pattern reaches."""

from __future__ import annotations

from uuid import uuid4

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.domain.routes import Scope
from memforest_core.service.keys.records import Caller


def caller(owners: str | None) -> Caller:
    return Caller(TenantId("acme"), uuid4(), "test", Scope.READ, owners)


@pytest.mark.parametrize(
    ("pattern", "reached", "refused"),
    [
        ("user-*", ["user-", "user-1", "user-*"], ["User-1", "a-user-1"]),
        ("user-?", ["user-1", "user-["], ["user-", "user-12"]),
        ("team[ab]", ["team[ab]"], ["teama", "teamb"]),
        ("[!a]*", ["[!a]", "[!a]x"], ["b", "x"]),
        (r"a\*b", ["a*b"], ["axb", r"a\b", r"a\*b"]),
        (r"a\?", ["a?"], ["ab"]),
        (r"a\\*", [r"a\x"], ["a*", "ax"]),
        (r"domain\user", [r"domain\user"], ["domainuser"]),
        ("a\\", ["a\\"], ["a"]),
    ],
)
def test_only_stars_and_question_marks_are_patterns(pattern: str, reached: list[str], refused: list[str]) -> None:
    assert [owner for owner in reached if not caller(pattern).may_ask_of(owner)] == []
    assert [owner for owner in refused if caller(pattern).may_ask_of(owner)] == []


@pytest.mark.parametrize(
    ("pattern", "begin", "only"),
    [
        (None, "", None),
        ("bob", "bob", "bob"),
        ("team[ab]", "team[ab]", "team[ab]"),
        (r"a\*b", "a*b", "a*b"),
        (r"a\*b*", "a*b", None),
        ("user-?x", "user-", None),
    ],
)
def test_what_owners_of_a_pattern_have_in_common(pattern: str | None, begin: str, only: str | None) -> None:
    assert (caller(pattern).owners_begin, caller(pattern).only_owner) == (begin, only)
