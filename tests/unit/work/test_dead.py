"""Naming dead work and waking who has work now: decided without a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.work.dead import DeadLetters
from memforest_core.work.records import Acted, DeadDetail, DeadFilter, DeadKind, DeadLetter, DeadRef

ACME = TenantId("acme")
FIRST = DeadRef(DeadKind.CELL, UUID("11111111-aaaa-4000-8000-000000000001"))
TWIN = DeadRef(DeadKind.NODE, UUID("11111111-aaaa-4000-8000-000000000002"))
OTHER = DeadRef(DeadKind.TASK, UUID("22222222-aaaa-4000-8000-000000000003"))


@dataclass
class Memory:
    """A store of dead references that records its calls."""

    refs: Sequence[DeadRef] = (FIRST, TWIN, OTHER)
    acted: Acted = field(default_factory=Acted)
    reported: list[tuple[str, tuple[DeadRef, ...]]] = field(default_factory=list)
    filters: list[DeadFilter] = field(default_factory=list)

    @contextmanager
    def looking_after(self, tenant: TenantId) -> Iterator[Memory]:
        assert tenant == ACME
        yield self

    def find_forest(self, owner: str) -> UUID | None:
        return UUID(int=1) if owner == "bob" else None

    def letters(self, which: DeadFilter, limit: int) -> Sequence[DeadLetter]:
        self.filters.append(which)
        return []

    def find(self, which: DeadFilter) -> Sequence[DeadRef]:
        self.filters.append(which)
        return self.refs

    def starting(self, prefixes: Sequence[str]) -> Sequence[DeadRef]:
        return [ref for ref in self.refs if any(ref.id.hex.startswith(prefix) for prefix in prefixes)]

    def detail(self, ref: DeadRef, *, text: bool) -> DeadDetail | None:
        return None

    def retry(self, refs: Sequence[DeadRef]) -> Acted:
        self.reported.append(("retry", tuple(refs)))
        return self.acted

    def discard(self, refs: Sequence[DeadRef]) -> Acted:
        self.reported.append(("discard", tuple(refs)))
        return self.acted


@dataclass
class Sent:
    """Wake-ups that were sent."""

    messages: list[tuple[str, str, int]] = field(default_factory=list)

    def send(self, queue: str, tenant: TenantId, ref: UUID | str, count: int = 1) -> bool:
        self.messages.append((str(queue), tenant, count))
        return True


def letters(memory: Memory, sent: Sent | None = None) -> DeadLetters:
    return DeadLetters(memory.looking_after, sent or Sent(), ACME, max_wakeups=4)


@pytest.mark.parametrize(
    "name", ["22222222", "22222222-AAAA", " 22222222aaaa4000 ", str(OTHER.id), OTHER.id.hex.upper()]
)
def test_a_beginning_of_eight_hex_digits_names_the_one_that_has_it(name: str) -> None:
    memory = Memory()
    letters(memory).retry(name)
    assert memory.reported == [("retry", (OTHER,))]


def test_what_is_named_twice_is_meant_once() -> None:
    memory = Memory()
    letters(memory).discard(str(OTHER.id), "22222222", str(FIRST.id))
    assert memory.reported == [("discard", (OTHER, FIRST))]


@pytest.mark.parametrize("name", ["2222222", "", "bob", "22222222%", "2222_222", "2" * 33])
def test_what_is_no_beginning_of_an_id_is_refused(name: str) -> None:
    memory = Memory()
    with pytest.raises(InvalidInput, match="first 8 characters") as refused:
        letters(memory).retry(str(FIRST.id), name)
    assert refused.value.code == "invalid_id"
    assert memory.reported == []


def test_a_beginning_that_several_have_lists_them() -> None:
    memory = Memory()
    with pytest.raises(InvalidInput, match=f"2 ids begin with '11111111'.*{FIRST.id}, {TWIN.id}") as refused:
        letters(memory).discard("11111111")
    assert refused.value.code == "ambiguous_id"
    assert memory.reported == []


def test_one_unknown_id_leaves_the_others_alone() -> None:
    memory = Memory()
    with pytest.raises(NotFound, match=r"Nothing dead has the id '33333333': see memforest dead list\."):
        letters(memory).retry(str(FIRST.id), "33333333")
    assert memory.reported == []


def test_what_was_revived_before_it_is_shown_is_not_found() -> None:
    with pytest.raises(NotFound):
        letters(Memory()).show(str(FIRST.id))


def test_all_means_all_that_the_filter_leaves() -> None:
    memory = Memory()
    letters(memory).retry_all("bob", code="model_rejected", kinds=[DeadKind.NODE])
    letters(memory).retry_all()
    assert memory.filters == [DeadFilter("bob", "model_rejected", (DeadKind.NODE,)), DeadFilter()]
    assert memory.reported == [("retry", tuple(memory.refs))] * 2


def test_an_owner_that_does_not_exist_is_named() -> None:
    for call in (letters(Memory()).list, letters(Memory()).retry_all):
        with pytest.raises(NotFound, match="No owner 'eve'"):
            call("eve")


def test_each_queue_that_has_work_now_is_woken_within_bounds() -> None:
    sent = Sent()
    letters(Memory(acted=Acted(windows=100, forests=1, trees=2, tasks=3)), sent).retry_all()
    assert sent.messages == [("extract", ACME, 4), ("reduce", ACME, 1), ("refresh", ACME, 2), ("maintain", ACME, 3)]


def test_nobody_is_woken_for_nothing() -> None:
    sent = Sent()
    letters(Memory(), sent).discard(str(OTHER.id))
    assert sent.messages == []
