"""Which summaries stand for older turns, what fits a budget, and what one call reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from memforest_core.assistant.condensing import MAX_INPUT_CHARS, Condenser
from memforest_core.assistant.conversation_window.arranging import chosen, fitted, last_parts, older_parts, untold
from memforest_core.assistant.conversation_window.records import (
    HeldItem,
    Loaded,
    PartKind,
    Reason,
    StoredSummary,
    TreeSummary,
    WindowHead,
    WindowPart,
)
from memforest_core.domain.ids import ForestId, NodeId, SessionId
from memforest_core.domain.turns import Role, Turn
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.models.calls import CallRecord
from tests.harness.chats import AnsweringChat

TEXT = "We walked along the river until the lamps were lit. " * 4


def turn(at: int, text: str = "word " * 8) -> Turn:
    return Turn(at, f"t{at}", Role.USER, text, datetime(2024, 1, 1, tzinfo=UTC), True, "bob", "Bob")


def node(first: int, last: int, text: str = "A summary.") -> TreeSummary:
    return TreeSummary(NodeId(uuid4()), text, SummarySource.MODEL, first, last)


def stored(turns: int, text: str = "What is stored.") -> StoredSummary:
    return StoredSummary(turns, text, SummarySource.MODEL, "m", b"", uuid4())


def loaded(
    turns: int,
    *,
    tree: Sequence[TreeSummary] | None = (),
    later: Sequence[TreeSummary] = (),
    own: StoredSummary | None = None,
    waiting: Sequence[tuple[int, int]] = (),
    last: int = 4,
) -> Loaded:
    return Loaded(
        forest=ForestId(uuid4()),
        frozen=False,
        head=WindowHead(SessionId(uuid4()), "s", turns),
        stored=own,
        end=max(0, turns - last),
        begin=0 if own is None else own.turns,
        digest=b"",
        tree=tree,
        later=later,
        waiting=waiting,
        turns={at: turn(at) for at in range(turns)},
        ids={at: f"t{at}" for at in range(turns)},
    )


def shown(of: Loaded, max_tokens: int = 10_000) -> list[tuple[str, int, int]]:
    parts = [*older_parts(chosen(of, max_tokens), of), *last_parts(of)]
    return [(part.kind.value, part.first, part.last) for part in parts]


# Arranging


def test_a_turn_is_covered_by_a_summary_unless_one_of_its_cells_waits() -> None:
    assert untold(0, 8, [node(0, 2), node(4, 6)], [(5, 5)]) == [3, 5, 7]
    assert untold(4, 4, [], []) == []


def test_turns_between_summaries_stay_where_they_are() -> None:
    assert shown(loaded(10, tree=[node(0, 1), node(3, 4)])) == [
        ("summary", 0, 1),
        ("turn", 2, 2),
        ("summary", 3, 4),
        *(("turn", at, at) for at in range(5, 10)),
    ]


def test_the_tree_is_shown_where_it_knows_more_and_the_stored_summary_where_the_tree_lags() -> None:
    own = stored(8)
    more = loaded(14, tree=[node(0, 9)], later=[node(8, 9)], own=own)
    assert shown(more)[0] == ("summary", 0, 9)
    lagging = loaded(14, tree=[node(0, 3)], later=[], own=own)
    assert shown(lagging)[:3] == [("summary", 0, 7), ("turn", 8, 8), ("turn", 9, 9)]
    assert shown(loaded(14, tree=None, own=own))[0] == ("summary", 0, 7)


def test_what_fits_the_budget_goes_before_what_knows_more() -> None:
    long = [node(0, 5, TEXT), node(6, 9, TEXT)]
    both = loaded(14, tree=long, later=[node(8, 9)], own=stored(8))
    assert shown(both, 100)[:2] == [("summary", 0, 7), ("summary", 8, 9)]
    assert shown(both, 10_000)[0] == ("summary", 0, 7)


# Fitting


def item(text: str = "A fact.", **given: object) -> HeldItem:
    values: dict[str, object] = {
        "session_id": "old",
        "turn_ids": ("o1",),
        "ordinal": 0,
        "fact_id": None,
        "superseded": False,
        "own": False,
    }
    values |= given
    own, superseded = bool(values.pop("own")), bool(values.pop("superseded"))
    at, ids = values.pop("ordinal"), values["turn_ids"]
    place = {"first": at, "last": at, "turns": len(ids)}  # type: ignore[arg-type]
    return HeldItem(WindowPart(kind=PartKind.ITEM, text=text, **place, **values), superseded, own)  # type: ignore[arg-type]


def test_last_turns_are_taken_without_a_gap_and_the_rest_by_rank() -> None:
    of = loaded(12, tree=[node(0, 3, TEXT), node(4, 6)])
    older, last = older_parts(chosen(of, 10_000), of), last_parts(of)
    each = last[0].tokens
    parts, left_out = fitted(last, older, [item()], 4 * each + older[1].tokens)
    assert [(part.kind.value, part.first) for part in parts] == [("summary", 4), *(("turn", at) for at in range(8, 12))]
    assert [(out.kind, out.turns, out.reason) for out in left_out] == [
        (PartKind.SUMMARY, 4, Reason.BUDGET),
        (PartKind.TURN, 1, Reason.BUDGET),
        (PartKind.ITEM, 1, Reason.BUDGET),
    ]
    short, out = fitted(last, [], [], 2 * each)
    assert [part.first for part in short] == [10, 11]
    assert [each.turn_ids for each in out] == [("t8",), ("t9",)]


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 11])
def test_the_last_turn_is_cut_to_the_budget(max_tokens: int) -> None:
    (part,), left_out = fitted(last_parts(loaded(1)), [], [], max_tokens)
    assert part.cut
    assert part.tokens <= max_tokens
    assert left_out == ()


def test_items_that_are_shown_or_corrected_are_left_out() -> None:
    of = loaded(2)
    items = [item(), item(own=True, turn_ids=("t1",)), item(superseded=True), item(own=True, turn_ids=("t9",))]
    parts, left_out = fitted(last_parts(of), [], items, 1_000)
    assert [part.turn_ids for part in parts] == [("o1",), ("t9",), ("t0",), ("t1",)]
    assert [out.reason for out in left_out] == [Reason.REPEATED, Reason.SUPERSEDED]


# Compacting


def summary(text: str) -> str:
    return json.dumps({"summary": text})


def test_texts_that_fit_are_joined_without_a_call() -> None:
    calls: list[CallRecord] = []
    made = Condenser(lambda: AnsweringChat(), 100).compact("So far.", ["Bob: Hello."], calls)
    assert (made.text, made.source, calls) == ("So far.\nBob: Hello.", SummarySource.JOINED, [])


def test_an_answer_of_no_use_is_requested_once_more() -> None:
    chat, calls = AnsweringChat("no json", summary("  ")), list[CallRecord]()
    made = Condenser(lambda: chat, 100).compact("", [TEXT], calls)
    assert made.source is SummarySource.DEGRADED
    assert len(calls) == len(chat.requests) == 2
    assert "of no use" in made.notes[0]
    chat = AnsweringChat("no json", summary("A walk."))
    assert Condenser(lambda: chat, 100).compact("", [TEXT], []).text == "A walk."
    assert "can't be used" in chat.requests[1].messages[-1].content


def test_an_answer_is_bounded() -> None:
    made = Condenser(lambda: AnsweringChat(summary(" ".join(map(str, range(5_000))))), 100).compact("", [TEXT], [])
    assert len(made.text) <= 200


def test_too_many_texts_are_shortened_from_the_oldest_on_and_it_says_so() -> None:
    chat = AnsweringChat(summary("Long."))
    texts = [f"Turn {at}: {TEXT}" for at in range(500)]
    made = Condenser(lambda: chat, 100).compact("", texts, [])
    document = json.loads(chat.requests[0].messages[1].content)
    assert sum(map(len, document["then"])) <= MAX_INPUT_CHARS
    assert document["then"][-1] == texts[-1].strip() or document["then"][-1] == texts[-1]
    assert made.notes[0].startswith("Rules shortened the oldest")
    assert made.source is SummarySource.MODEL
