"""Answering: one call, citations that exist, an honest "not in memory", and evidence that is never lost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memforest_core.domain.evidence import RecallResult
from memforest_core.errors import (
    ContentRefused,
    ContextTooLong,
    InvalidInput,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.calls import Step
from memforest_core.recall.answer import NOT_IN_MEMORY, Answer, AnswerService, Citation
from tests.unit.recall.answering.said import TENANT, Ledger, ScriptedChat, piece, recalled, says

QUESTION = "Where does Bob live?"
FOUND = recalled(
    piece("Bob: I have left Davis and moved to Miami.", "2024-02-12T18:00", session="miami"),
    piece("Bob: I moved from Boston to Davis.", "2023-05-08T10:00", session="moving", ordinal=1),
)


def answered(
    *script: str | MemForestError,
    result: RecallResult = FOUND,
    ledger: Ledger | None = None,
    asked_at: object | None = "2024-03-01T12:00",
) -> tuple[Answer, ScriptedChat]:
    chat = ScriptedChat(list(script))
    service = AnswerService(chat, ledger or Ledger())
    return service.answer(TENANT, "bob", QUESTION, result, asked_at), chat


def test_a_supported_answer_comes_with_the_evidence_it_cites() -> None:
    ledger = Ledger()
    given, chat = answered(says("Miami", [1]), ledger=ledger)
    assert (given.text, given.supported, given.not_in_memory, given.calls) == ("Miami", True, False, 1)
    assert given.citations == (
        Citation(1, ("t0",), "miami", "Bob: I have left Davis and moved to Miami.", "Monday 12 February 2024"),
    )
    assert given.evidence is FOUND
    assert given.model == "test/model"
    assert given.degraded == ()
    assert [call.step for call in ledger.recorded] == [Step.ANSWER]
    (request,) = chat.requests
    assert request.step is Step.ANSWER
    assert request.schema is not None


def test_the_time_of_the_question_is_in_the_forests_zone() -> None:
    _, chat = answered(says(), asked_at=datetime(2024, 2, 29, 23, 30, tzinfo=UTC))
    requested = json.loads(chat.requests[0].messages[1].content.splitlines()[-1])
    assert requested == {"question": QUESTION, "asked": "Friday 1 March 2024, 00:30"}


def test_a_follow_up_is_shown_as_it_was_completed() -> None:
    result = recalled(piece(), completed_question="Where did Bob live before Miami?")
    _, chat = answered(says(), result=result)
    assert "Where did Bob live before Miami?" in chat.requests[0].messages[1].content


def test_without_evidence_no_call_is_made() -> None:
    ledger = Ledger()
    given, chat = answered(result=recalled(degraded=("The vector index is unavailable.",)), ledger=ledger)
    assert (given.text, given.supported, given.not_in_memory) == (NOT_IN_MEMORY, False, True)
    assert (given.calls, given.citations, chat.requests, ledger.recorded) == (0, (), [], [])
    assert given.degraded == ("The vector index is unavailable.",)


def test_an_answer_that_nothing_supports_says_so_whatever_else_the_model_wrote() -> None:
    given, chat = answered(says("Probably Paris.", [1, 2], supported=False))
    assert (given.text, given.supported, given.not_in_memory, given.citations) == (NOT_IN_MEMORY, False, True, ())
    assert len(chat.requests) == 1


def test_citations_that_do_not_exist_are_dropped() -> None:
    given, _ = answered(says("Miami", [7, 2, 99]))
    assert [citation.number for citation in given.citations] == [2]
    assert given.supported


def test_an_answer_without_a_citation_is_requested_once_more_with_the_error() -> None:
    given, chat = answered(says("Miami", [99]), says("Miami", [1]))
    assert (given.text, given.calls, given.degraded) == ("Miami", 2, ())
    first, repeated = chat.requests
    assert repeated.messages[:2] == first.messages
    assert [message.role for message in repeated.messages] == ["system", "user", "assistant", "user"]
    assert repeated.messages[2].content == says("Miami", [99])
    assert '"citations" has no number' in repeated.messages[3].content


def test_an_answer_that_twice_cites_nothing_is_not_supported() -> None:
    ledger = Ledger()
    given, chat = answered(says("42", [99]), says("42", []), ledger=ledger)
    assert (given.text, given.supported, given.not_in_memory, given.citations) == (NOT_IN_MEMORY, False, True, ())
    assert (given.calls, len(chat.requests), len(ledger.recorded)) == (2, 2, 2)
    assert "cited nothing that was found" in given.degraded[0]


def test_a_reply_that_cannot_be_read_is_requested_once_more() -> None:
    given, chat = answered("Sure! Miami.", says("Miami", [1]))
    assert (given.text, given.calls) == ("Miami", 2)
    assert "no JSON object" in chat.requests[1].messages[3].content


def test_without_a_usable_reply_the_evidence_is_returned_and_nothing_is_claimed() -> None:
    given, _ = answered("Sure! Miami.", "")
    assert (given.text, given.supported, given.not_in_memory, given.calls) == ("", False, False, 2)
    assert given.evidence is FOUND
    assert "no usable answer" in given.degraded[0]


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("The model did not answer within 60 s."),
        ModelRateLimited("The model is rate limited (429).", retry_after=7.0),
        ContextTooLong("The input does not fit."),
        ContentRefused("The content policy refused the input."),
    ],
)
def test_a_model_that_is_unavailable_or_refuses_this_content_leaves_the_evidence(error: MemForestError) -> None:
    ledger = Ledger()
    result = recalled(*FOUND.evidence, degraded=("The embedding model is away.",))
    given, _ = answered(error, result=result, ledger=ledger)
    assert (given.text, given.supported, given.not_in_memory) == ("", False, False)
    assert given.evidence is result
    assert given.degraded == ("The embedding model is away.", f"No answer was written: {error.message}")
    assert [call.outcome for call in ledger.recorded] == [error.code]


def test_a_model_that_is_unavailable_at_the_second_try_leaves_the_evidence() -> None:
    ledger = Ledger()
    given, _ = answered(says("42", [99]), ModelUnavailable("The model is away."), ledger=ledger)
    assert (given.text, given.supported, given.not_in_memory, given.calls) == ("", False, False, 2)
    assert [call.outcome for call in ledger.recorded] == ["ok", "model_unavailable"]


@pytest.mark.parametrize("error", [ModelAuthFailed("Set the key."), ModelRejected("Change the model.")])
def test_an_error_that_somebody_has_to_fix_is_raised_and_its_cost_is_recorded(error: MemForestError) -> None:
    ledger = Ledger()
    with pytest.raises(type(error)):
        answered(error, ledger=ledger)
    assert [call.outcome for call in ledger.recorded] == [error.code]


def test_an_answer_is_given_even_when_its_cost_cannot_be_recorded() -> None:
    given, _ = answered(says("Miami", [1]), ledger=Ledger(unavailable=True))
    assert given.text == "Miami"
    assert "could not be recorded" in given.degraded[0]


def test_who_has_no_memory_yet_is_answered_without_a_call() -> None:
    found = replace(FOUND, evidence=(), owner_known=False)
    given = AnswerService(ScriptedChat([]), Ledger()).answer(TENANT, "eve", QUESTION, found)
    assert given.not_in_memory
    assert given.calls == 0


@pytest.mark.parametrize("asked_at", ["yesterday", 1e30, True])
def test_a_time_that_is_none_is_refused(asked_at: object) -> None:
    with pytest.raises(InvalidInput, match="asked_at"):
        answered(says(), asked_at=asked_at)


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="max_tokens"):
        AnswerService(ScriptedChat([]), Ledger()).answer(TENANT, "bob", QUESTION, FOUND, max_tokens=0)
