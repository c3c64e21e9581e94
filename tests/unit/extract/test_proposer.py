"""A model is shown its own mistakes, a bounded number of times; what it says is never trusted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memforest_core.errors import ContentFault, ModelRateLimited
from memforest_core.extract.prompt import SYSTEM, render_window
from memforest_core.extract.proposer import OFFLINE_MODEL, ModelProposer, OfflineProposer, Proposal, parse_answer
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Message, Step
from tests.support.builders import window, window_turn

GOOD = json.dumps(
    {
        "items": [{"text": "Bob lives in Davis.", "turns": [1]}],
        "summaries": [{"cell": 1, "text": "Bob's home is Davis."}],
    }
)


class ScriptedChat:
    """Answers one after the other; an exception is raised in its turn."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []

    def model_name(self, step: Step) -> str:
        return f"scripted-{step.value}"

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        record = CallRecord(request.step, "scripted", len(self.requests), 1, 0, 0.0, 1.0, "ok")
        return ChatReply(answer, record)


def propose(chat: ScriptedChat, repairs: int = 2) -> tuple[Proposal, list[CallRecord]]:
    calls: list[CallRecord] = []
    return ModelProposer(chat, repairs).propose(window(), calls), calls


def test_a_good_answer_takes_one_call() -> None:
    chat = ScriptedChat(GOOD)

    proposal, calls = propose(chat)

    assert [item.text for item in proposal.answer.items] == ["Bob lives in Davis."]
    assert proposal.answer.summaries[0].text == "Bob's home is Davis."
    assert not proposal.repaired
    assert len(calls) == 1
    [request] = chat.requests
    assert request.step is Step.EXTRACT
    assert request.messages == (Message("system", SYSTEM), Message("user", render_window(window())))
    assert request.schema is not None and "items" in str(request.schema)


def test_every_call_begins_with_the_same_bytes() -> None:
    """Given different windows, then what varies comes last, where a provider's prefix cache allows it."""
    chat = ScriptedChat(GOOD, json.dumps({"items": [], "summaries": []}))
    proposer = ModelProposer(chat, 0)

    proposer.propose(window(), [])
    proposer.propose(window(window_turn(1, "I adopted a dog.", speaker="Eve"), zone="Asia/Tokyo"), [])

    first, second = (request.messages for request in chat.requests)
    assert first[0] == second[0] == Message("system", SYSTEM)
    assert first[1] != second[1]


BAD = {
    "empty": ("", "holds no JSON object"),
    "prose": ("I could not find anything.", "holds no JSON object"),
    "a list": ("[]", "holds no JSON object"),
    "malformed": ('{"items": [}', "malformed or cut off"),
    "truncated": (GOOD[:40], "malformed or cut off"),
    "truncated after an object": (GOOD[: GOOD.index("}") + 1], "malformed or cut off"),
    "wrong schema": ('{"facts": []}', "items: Field required"),
    "wrong type": ('{"items": [{"text": "x", "turns": "all"}]}', "items.0.turns: Input should be a valid list"),
    "no text": ('{"items": [{"text": "", "turns": [1]}]}', "items.0.text: String should have at least 1 character"),
    "no turns": ('{"items": [{"text": "x", "turns": []}]}', "items.0.turns: List should have at least 1 item"),
    "unknown word": ('{"items": [{"text": "x", "turns": [1], "change": "moved"}]}', "items.0.change: Input should be"),
    "unknown turn": ('{"items": [{"text": "x", "turns": [7]}]}', "names turn 7"),
    "endless number": ('{"items": [], "n": ' + "9" * 5_000 + "}", "a number that is too long"),
    "too deep": ('{"a":' * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize(("answer", "reason"), BAD.values(), ids=BAD)
def test_a_bad_answer_is_shown_to_the_model_with_its_error(answer: str, reason: str) -> None:
    chat = ScriptedChat(answer, GOOD)

    proposal, calls = propose(chat)

    assert proposal.repaired
    assert len(proposal.answer.items) == 1
    assert len(calls) == len(chat.requests) == 2
    first, second = chat.requests
    assert second.messages[:2] == first.messages
    shown, told = second.messages[2:]
    assert shown == Message("assistant", answer[:20_000] or "(empty)")
    assert told.role == "user"
    assert reason in told.content
    assert len(told.content) < 2_000


def test_only_the_last_mistake_is_shown() -> None:
    chat = ScriptedChat("", '{"facts": []}', GOOD)

    proposal, calls = propose(chat)

    assert proposal.repaired
    assert len(calls) == 3
    assert [message.content for message in chat.requests[2].messages[2:3]] == ['{"facts": []}']
    assert len(chat.requests[2].messages) == 4


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_repairs_are_bounded_and_every_call_is_accounted_for(repairs: int) -> None:
    calls: list[CallRecord] = []
    chat = ScriptedChat(*[""] * repairs, '{"facts": []}')

    with pytest.raises(ContentFault, match="Field required"):
        ModelProposer(chat, repairs).propose(window(), calls)

    assert [call.prompt_tokens for call in calls] == list(range(1, repairs + 2))


def test_a_model_that_is_away_is_not_a_bad_answer() -> None:
    """Given a bad answer and then a 429, then the 429 is what the retry decision sees, and the first call is kept."""
    calls: list[CallRecord] = []
    chat = ScriptedChat("", ModelRateLimited("429", retry_after=3.0))

    with pytest.raises(ModelRateLimited):
        ModelProposer(chat, 2).propose(window(), calls)

    assert len(calls) == 1


@pytest.mark.parametrize(
    "wrapped",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Here is the memory:\n\n{GOOD}\n\nLet me know if you need more.",
        f"\ufeff {GOOD}\n",
    ],
    ids=["bare", "fenced as json", "fenced", "in prose", "byte order mark"],
)
def test_the_json_is_found_in_whatever_surrounds_it(wrapped: str) -> None:
    assert parse_answer(wrapped) == parse_answer(GOOD)


def test_fields_that_nobody_asked_for_are_ignored() -> None:
    answer: dict[str, Any] = json.loads(GOOD)
    answer["confidence"] = 1
    answer["items"][0]["reasoning"] = "because"

    assert parse_answer(json.dumps(answer)) == parse_answer(GOOD)


def test_nul_and_lone_surrogates_are_removed_before_anything_is_kept() -> None:
    """The answer itself goes into the cache, whose store takes neither."""
    found = parse_answer(
        r'{"items": [{"text": "Bob \ud83c\udf32 lives\u0000 in\ud800 Davis.", "turns": [1]}],'
        r' "summaries": [{"cell": 1, "text": "\u0000Home\udfff."}]}'
    )

    assert found.items[0].text == "Bob 🌲 lives in Davis."
    assert found.summaries[0].text == "Home."


def test_the_error_shown_holds_no_more_than_five_faults() -> None:
    items = [{"text": "x", "turns": "all"}] * 60

    with pytest.raises(ContentFault) as fault:
        parse_answer(json.dumps({"items": items}))

    assert fault.value.message.count("valid list") == 5


def test_the_model_is_named_by_its_step() -> None:
    assert ModelProposer(ScriptedChat(), 0).model == "scripted-extract"


def test_the_offline_proposer_makes_no_call_and_always_says_the_same() -> None:
    calls: list[CallRecord] = []
    shown = window(window_turn(1, "I live in Davis."))

    first, second = (OfflineProposer().propose(shown, calls) for _ in range(2))

    assert first == second
    assert [item.value for item in first.answer.items] == ["Davis"]
    assert not first.repaired
    assert calls == []
    assert OfflineProposer().model == OFFLINE_MODEL
