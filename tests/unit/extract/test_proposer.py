"""A model is shown its own mistakes, a bounded number of times; what can be read of what it says is never lost."""

from __future__ import annotations

import json

import pytest

from memforest_core.errors import ContentFault, ModelRateLimited
from memforest_core.ingest.extract.extraction_prompt import SYSTEM, render_window
from memforest_core.ingest.extract.proposer import OFFLINE_MODEL, ModelProposer, OfflineProposer, Proposal
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Message, Step
from tests.harness.builders import window, window_turn

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


BAD = {
    "empty": ("", "has no JSON object"),
    "prose": ("I could not find anything.", "has no JSON object"),
    "prose with brackets": ("Turn [1] says {nothing} of use.", "has none of the fields items"),
    "malformed": ('{"items": [}', "cut before its first item ended"),
    "truncated": (GOOD[:30], "cut before its first item ended"),
    "wrong schema": ('{"facts": []}', "has none of the fields items"),
    "wrong type": ('{"items": "seven"}', "1 item had no text"),
    "no text": ('{"items": [{"text": "", "turns": [1]}, {"turns": [1]}]}', "2 items had no text"),
    "no turns": ('{"items": [{"text": "Bob lives in Davis.", "turns": []}]}', "1 item named no turn"),
    "unknown turn": ('{"items": [{"text": "Bob lives in Davis.", "turns": [7]}]}', "1 item named no turn"),
    "a loop": (
        json.dumps({"items": [{"text": "Bob lives in Davis. " * 60, "turns": [1]}]}),
        "1 item repeated its text",
    ),
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
    shown, reported = second.messages[2:]
    assert shown == Message("assistant", answer[:20_000] or "(empty)")
    assert reported.role == "user"
    assert reason in reported.content
    assert len(reported.content) < 2_000


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_repairs_are_bounded_and_every_call_is_accounted_for(repairs: int) -> None:
    calls: list[CallRecord] = []
    chat = ScriptedChat(*[""] * repairs, '{"facts": []}')

    with pytest.raises(ContentFault, match="none of the fields"):
        ModelProposer(chat, repairs).propose(window(), calls)

    assert [call.prompt_tokens for call in calls] == list(range(1, repairs + 2))


def test_an_unavailable_model_is_not_a_bad_answer() -> None:
    """Given a bad answer and then a 429, then the retry decision sees the 429, and the first call is recorded."""
    calls: list[CallRecord] = []
    chat = ScriptedChat("", ModelRateLimited("429", retry_after=3.0))

    with pytest.raises(ModelRateLimited):
        ModelProposer(chat, 2).propose(window(), calls)

    assert len(calls) == 1


SAID = ("I live in Davis.", "I adopted a dog named Pip.", "I work as a nurse.", "I bought 3 red kayaks.")
TALK = window(*(window_turn(number, text, cell=number) for number, text in enumerate(SAID, 1)))
ITEMS = [
    {"text": "Bob lives in Davis.", "turns": [1]},
    {"text": "Bob adopted a dog named Pip.", "turns": [2]},
    {"text": "Bob works as a nurse.", "turns": [3]},
    {"text": "Bob bought 3 red kayaks.", "turns": [4]},
]
SILENT = {"turns": [1], "value": "Davis"}


def texts(proposal: Proposal) -> list[str]:
    return [item.text for item in proposal.answer.items]


def of(*items: object) -> str:
    return json.dumps({"items": items})


def test_items_that_cannot_be_read_cost_neither_the_others_nor_a_call() -> None:
    chat = ScriptedChat(of(*ITEMS[:2], SILENT, {"text": "Bob lives in Davis.", "turns": [9]}))

    proposal = ModelProposer(chat, 1).propose(TALK, [])

    assert texts(proposal) == ["Bob lives in Davis.", "Bob adopted a dog named Pip."]
    assert proposal.left_out == "1 item had no text, 1 item named no turn to extract from"
    assert not proposal.repaired


def test_an_answer_that_is_mostly_lost_is_requested_once_more() -> None:
    chat = ScriptedChat(of(ITEMS[0], SILENT, SILENT), of(*ITEMS))

    proposal = ModelProposer(chat, 1).propose(TALK, [])

    assert len(texts(proposal)) == 4
    assert (proposal.repaired, proposal.left_out) == (True, "")
    assert "2 items had no text" in chat.requests[1].messages[-1].content


@pytest.mark.parametrize("second", ["", "I am sorry.", of(SILENT, SILENT, SILENT)])
def test_what_was_read_at_first_stays_when_the_second_answer_is_worse(second: str) -> None:
    chat = ScriptedChat(of(ITEMS[0], SILENT, SILENT), second)

    proposal = ModelProposer(chat, 1).propose(TALK, [])

    assert (texts(proposal), proposal.left_out) == (["Bob lives in Davis."], "2 items had no text")


def test_after_a_cut_the_second_call_shows_only_the_turns_that_are_left() -> None:
    """Given an answer cut within its third item, then the second call shows the turns from the second item's on."""
    cut = of(*ITEMS)
    chat = ScriptedChat(cut[: cut.index("nurse")], of(*ITEMS[1:]))

    proposal = ModelProposer(chat, 0).propose(TALK, [])

    assert texts(proposal) == [item["text"] for item in ITEMS]
    assert (proposal.repaired, proposal.left_out) == (True, "")
    rest = chat.requests[1].messages[1].content
    assert SAID[0] in rest[: rest.index(SAID[1])]
    assert "Before:" in rest and "\n1 " not in rest and f"2 bob: {SAID[1]}" in rest.replace("Bob", "bob")
    assert chat.requests[0].input != chat.requests[1].input


def test_a_cut_within_the_first_turn_loses_no_other_item_of_that_turn() -> None:
    """Given an answer cut within the second item of the first turn, then the same turns are read once more."""
    two = of(ITEMS[0], ITEMS[0] | {"text": "Bob has lived in Davis for years."})
    chat = ScriptedChat(two[: two.index("for years")], two)

    proposal = ModelProposer(chat, 1).propose(window(*TALK.turns[:2]), [])

    assert texts(proposal) == ["Bob lives in Davis.", "Bob has lived in Davis for years."]
    assert (proposal.left_out, len(chat.requests)) == ("", 2)


@pytest.mark.parametrize(("shown", "calls"), [(1, 2), (2, 4), (4, 4)])
def test_an_answer_that_is_always_cut_at_the_same_place_ends_with_what_it_has(shown: int, calls: int) -> None:
    cut = of(*ITEMS)
    chat = ScriptedChat(*[cut[: cut.index("adopted")]] * 6)

    proposal = ModelProposer(chat, 1).propose(window(*TALK.turns[:shown]), [])

    assert texts(proposal) == ["Bob lives in Davis."]
    assert proposal.left_out == "the answer was cut after 1 items"
    assert len(chat.requests) == calls


def test_the_offline_proposer_makes_no_call_and_always_says_the_same() -> None:
    calls: list[CallRecord] = []
    shown = window(window_turn(1, "I live in Davis."))

    first, second = (OfflineProposer().propose(shown, calls) for _ in range(2))

    assert first == second
    assert [item.value for item in first.answer.items] == ["Davis"]
    assert not first.repaired
    assert calls == []
    assert OfflineProposer().model == OFFLINE_MODEL
