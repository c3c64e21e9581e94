"""Replies of a model: only what fits the schema and cites what exists is believed."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest_core.errors import ContentFault
from memforest_core.recall.answer import UNSUPPORTED, Reply, UncitedError, parse_reply
from tests.unit.recall.answering.said import says

KNOWN = {1, 2, 3}


def test_the_schema_has_answer_citations_and_support_and_nothing_else() -> None:
    requested = Reply.model_json_schema()
    assert requested["required"] == ["answer", "citations", "supported"]
    assert requested["additionalProperties"] is False


def test_a_reply_that_fits_is_taken() -> None:
    assert parse_reply(says("Davis", [2, 1]), KNOWN) == Reply(answer="Davis", citations=[2, 1], supported=True)


def test_a_fenced_reply_is_taken() -> None:
    assert parse_reply(f"```json\n{says('Davis', [2])}\n```", KNOWN).answer == "Davis"


def test_numbers_that_do_not_exist_and_repetitions_are_dropped() -> None:
    assert parse_reply(says("Davis", [99, 2, -1, 2, 0, 3]), KNOWN).citations == [2, 3]


def test_an_unsupported_reply_needs_no_citation() -> None:
    assert parse_reply(says("", [], supported=False), KNOWN) == UNSUPPORTED


@pytest.mark.parametrize("citations", [[], [99], [0], [-3, 4]])
def test_support_without_a_citation_that_exists_is_not_believed(citations: list[int]) -> None:
    with pytest.raises(UncitedError, match="citations"):
        parse_reply(says("42", citations), KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "{",
        "{answer: 42}",
        says("", [1]),
        says("42", ["one"]),
        says("42", [1], supported="perhaps"),
        '{"answer": "42", "citations": [1]}',
        '{"answer": "42", "citations": [' + "9" * 5_000 + '], "supported": true}',
        '{"answer": ' + "[" * 100_000,
    ],
)
def test_what_does_not_fit_is_a_content_fault_with_a_sentence(text: str) -> None:
    with pytest.raises(ContentFault) as fault:
        parse_reply(text, KNOWN)
    assert 10 < len(fault.value.message) < 500


@given(st.text(max_size=300))
def test_no_text_raises_anything_else(text: str) -> None:
    for reply in (text, "{" + text, '{"answer": "' + text, says(text, [1]), says("x", [1]) + text):
        with suppress(ContentFault):
            assert set(parse_reply(reply, KNOWN).citations) <= KNOWN


def test_an_answer_is_storable_text() -> None:
    assert parse_reply(says(" Da\x00vis\ud800 ", [1]), KNOWN).answer == "Davis"


def test_a_field_outside_the_schema_costs_no_answer() -> None:
    text = '{"answer": "42", "citations": ["1"], "supported": "true", "rules": "none"}'
    assert parse_reply(text, KNOWN) == parse_reply(says("42", [1]), KNOWN)
