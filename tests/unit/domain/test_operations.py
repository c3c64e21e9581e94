"""The table of which operations run concurrently: it never makes operations wait for each other in a circle, and the docs show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.operation_rules import RULES, Answer, Role, answer

LIFECYCLE = Path(__file__).parents[3] / "docs" / "lifecycle.md"


def accepted(requested: Sequence[Role]) -> list[Role]:
    """Of operations on one forest, requested in this order while none of them is done, those that are not refused."""
    taken: list[Role] = []
    for role in requested:
        if all(answer(earlier, role) is not Answer.REFUSED for earlier in taken):
            taken.append(role)
    return taken


def waits(earlier: Role, later: Role) -> tuple[bool, bool]:
    """Whether the later one waits for the earlier one, and the earlier one for the later one."""
    found = answer(earlier, later)
    return found in (Answer.WAITS, Answer.OUTWAITS), found is Answer.OVERTAKES


@given(st.lists(st.sampled_from(Role), max_size=8))
def test_one_of_them_can_always_go_on(requested: list[Role]) -> None:
    left = accepted(requested)
    while left:
        free = [
            place
            for place, role in enumerate(left)
            if not any(waits(earlier, role)[0] for earlier in left[:place])
            and not any(waits(role, later)[1] for later in left[place + 1 :])
        ]
        assert free, f"all of {left} wait"
        del left[free[0]]


@given(st.sampled_from(Role), st.sampled_from(Role))
def test_every_pair_has_an_answer(earlier: Role, later: Role) -> None:
    assert answer(earlier, later) is RULES[earlier].get(later, Answer.CONCURRENT)


def table() -> list[str]:
    """The table as the docs show it."""
    head = ["earlier \\ later", *(role.value.replace("_", " ") for role in Role)]
    rows = [
        [f"**{earlier.value.replace('_', ' ')}**", *(str(answer(earlier, later).value) for later in Role)]
        for earlier in Role
    ]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def test_the_page_about_operations_shows_it() -> None:
    assert "\n".join(table()) in LIFECYCLE.read_text()
