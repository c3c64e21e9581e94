"""The context of a chat turn on the real stack: what goes in, what does not, and how many statements it takes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from memforest_core import Context, InvalidInput
from memforest_core.assistant.context.service import ContextService
from memforest_core.domain.delivery import estimated_tokens
from memforest_core.domain.ids import TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.models.calls import Embedder
from memforest_core.recall.service import RecallService
from memforest_core.store.owners import ForestRef
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

START = 1_714_000_000
DAY = 86_400
SAID = (
    "I live in Oslo.",
    "I work at Initech.",
    "I have a dog named Quibovix.",
    "We climbed Glittertind with Clara and saw two reindeer near the glacier.",
    "Clara lent me a brass compass for the trip.",
)
QUESTION = "What did we see on Glittertind with Clara?"


def tell(running: Stack) -> None:
    for day, text in enumerate(SAID):
        turn = {"id": f"t{day}", "role": "user", "content": text, "timestamp": START + day * DAY}
        running.memory.enqueue("alice", f"s{day}", [turn], display_name="Alice")
    channels = (("Ben", "dm", "I sold the teal canoe to Dora."), ("Cleo", "hall", "I rented the teal canoe to Emil."))
    for name, channel, text in channels:
        turn = {"id": f"t-{channel}", "role": "user", "name": name, "content": text, "timestamp": START + 9 * DAY}
        running.memory.enqueue("guild", f"s-{channel}", [turn], channel=channel)


def chat(running: Stack, *texts: str, session: str = "chat", owner: str = "alice", **options: Any) -> None:
    for at, text in enumerate(texts):
        role, name = ("assistant", "Guide") if at % 2 else ("user", "Alice")
        turn = {"id": f"c{at}", "role": role, "name": name, "content": text, "timestamp": START + 20 * DAY + at}
        running.memory.append(owner, session, turn, **options)


def why(context: Context) -> set[tuple[str, str]]:
    return {(each.section.value, each.why.value) for each in context.left_out}


@dataclass(frozen=True)
class Digest:
    id: str
    text: str
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diary:
    """Digests that are there."""

    today: str = "Alice: packed the tent."
    week: str = "Alice: came back from Glittertind."

    def today_of(self, _tenant: TenantId, _forest: ForestRef, _person: object) -> Digest:
        return Digest("day:1", self.today, ("The model was away when today was made.",))

    def week_of(self, _tenant: TenantId, _forest: ForestRef, _person: object) -> Digest:
        return Digest("week:1", self.week)


class NoDays(Diary):
    """Digests that the store does not give."""

    def week_of(self, _tenant: TenantId, _forest: ForestRef, _person: object) -> Digest:
        raise StoreUnavailable("Postgres is away.")


def service(running: Stack, **parts: Any) -> ContextService:
    """The service of a stack with other parts; without days unless given."""
    return replace(running.services.context, **({"days": None} | parts))


# What goes in


def test_profile_evidence_and_window_are_there_once(rested: Stack) -> None:
    """Given known states, something said weeks ago and a running session, then each is in its section, with its ids;
    evidence repeats neither what the profile says nor what the window shows."""
    chat(rested, "Good morning!", "Hello Alice!", "Tell me about Glittertind and Clara.")
    context = service(rested).context(rested.tenant, "alice", "chat", QUESTION)

    profile = [part.text for part in context.section("profile")]
    assert profile[:2] == ["- Alice lives in Oslo.", "- Alice works at Initech."] and "Quibovix" in profile[2]
    assert [part.text for part in context.section("window")] == [
        "Alice: Good morning!",
        "Guide: Hello Alice!",
        "Alice: Tell me about Glittertind and Clara.",
    ]
    evidence = context.section("evidence")
    assert any("reindeer" in part.text and part.turn_ids == ("t3",) for part in evidence)
    assert evidence[0].time_label and f"[{evidence[0].time_label}]" in context.text
    assert len({(part.session_id, part.turn_ids, part.text) for part in context.parts}) == len(context.parts)
    assert not {"chat"} & {part.session_id for part in evidence}
    assert ("evidence", "in window") in why(context)
    assert ("evidence", "in profile") in why(service(rested).context(rested.tenant, "alice", "chat", "Where is home?"))
    assert {("today", "unavailable"), ("week", "unavailable")} <= why(context)
    assert {("s3", "t3"), ("chat", "c2")} <= set(context.turn_ids)
    assert len(context.fact_ids) >= 4
    assert (context.about, context.session_id, context.question) == ("Alice", "chat", QUESTION)
    assert estimated_tokens(context.text) <= context.tokens <= context.max_tokens == 2_000
    assert sum(context.section_tokens.values()) == context.tokens
    assert context.degraded == ()


def test_without_a_question_the_last_turn_of_a_user_is_one(rested: Stack) -> None:
    chat(rested, QUESTION, "Let me think.")

    context = rested.memory.context("alice")

    assert (context.session_id, context.question) == ("chat", QUESTION)
    assert any("reindeer" in part.text for part in context.section("evidence"))


def test_digests_of_days_have_their_sections(rested: Stack) -> None:
    chat(rested, "Good morning!")
    context = service(rested, days=Diary()).context(rested.tenant, "alice", "chat")

    assert [(part.section.value, part.text, part.digest_id) for part in context.parts][4:6] == [
        ("week", "Alice: came back from Glittertind.", "week:1"),
        ("today", "Alice: packed the tent.", "day:1"),
    ]
    assert context.digest_ids == ("week:1", "day:1")
    assert context.degraded == ("The model was away when today was made.",)
    silent = service(rested, days=Diary(today="", week="x " * 900)).context(rested.tenant, "alice", max_tokens=200)
    assert ("today", "nothing") in why(silent) and ("week", "budget") in why(silent)
    assert silent.section("week")[0].cut and silent.tokens <= 200
    of_channel = service(rested, days=Diary()).context(rested.tenant, "alice", channel="dm")
    assert {("today", "channel"), ("week", "channel")} <= why(of_channel)


def test_a_long_session_is_shown_as_its_window(rested: Stack) -> None:
    """Given more turns than are shown word for word, then the section is what ``window`` shows."""
    chat(rested, *(f"Line {at}: {'we walked along the river ' * 5}" for at in range(14)))

    context = rested.memory.context("alice", "chat", "Anything?")
    window = rested.memory.window("alice", "chat")

    shown = [(part.kind.value, part.text, part.turn_ids) for part in context.section("window")]
    assert shown == [(part.kind.value, part.item, part.turn_ids) for part in window.parts]
    assert shown[0][0] == "summary"


def test_items_of_the_window_are_not_repeated(rested: Stack) -> None:
    chat(rested, "Good morning!")
    facts = {fact.text: fact.id for fact in rested.memory.facts("alice").items}
    reindeer = next(id_ for text, id_ in facts.items() if "reindeer" in text)
    rested.memory.window_put("alice", "chat", [facts["Alice lives in Oslo."], reindeer])

    context = rested.memory.context("alice", "chat", QUESTION)

    assert [part.fact_ids for part in context.section("window") if part.kind == "item"] == [(reindeer,)]
    assert ("window", "in profile") in why(context)
    assert sum("lives in Oslo" in part.text for part in context.parts) == 1


# Evidence


def counted_huts(running: Stack, number: int) -> None:
    """As many sessions, a day each, with two turns about huts."""
    for hut in range(number):
        said = [f"In hut {hut} by lake {hut + 90} we counted {hut + 3} bunks.", f"Path {hut} to hut {hut} was steep."]
        turns = [
            {"id": f"h{hut}-{at}", "role": "user", "content": text, "timestamp": START + (30 + hut) * DAY + at}
            for at, text in enumerate(said)
        ]
        running.memory.enqueue("alice", f"hut-{hut}", turns, display_name="Alice")
    running.drive()


def test_evidence_takes_what_is_left_of_the_budget(rested: Stack) -> None:
    """Given more to say about a question than fits, then the budget ends the evidence, not a number of items; a
    larger budget brings more, and the profile and the window have their parts."""
    counted_huts(rested, 40)
    chat(rested, "Good morning!", "Hello Alice!")
    question = "How many bunks did we count in the huts by the lakes?"

    small, large = (
        service(rested).context(rested.tenant, "alice", "chat", question, max_tokens=tokens) for tokens in (300, 900)
    )

    for context in (small, large):
        assert 0.9 * context.max_tokens < context.tokens <= context.max_tokens
        assert context.section("profile") and len(context.section("window")) == 2
        assert ("evidence", "budget") in why(context)
    assert len(large.section("evidence")) > 2 * len(small.section("evidence")) > 20


def test_evidence_comes_session_by_session_the_best_one_first_in_the_order_of_time(rested: Stack) -> None:
    turns = [
        {"id": f"r{at}", "role": "user", "content": text, "timestamp": START + 40 * DAY + at}
        for at, text in enumerate(
            ["Clara and I went up Glittertind second.", "It rained.", "We saw Glittertind's reindeer."]
        )
    ]
    rested.memory.enqueue("alice", "again", turns, display_name="Alice")
    rested.drive()

    context = service(rested).context(rested.tenant, "alice", "new", "Did we see Glittertind's reindeer again?")

    evidence = context.section("evidence")
    sessions = [part.session_id for part in evidence]
    assert sessions[0] == "again" and len(list(groupby(sessions))) == len(set(sessions)) > 2
    assert [part.turn_ids for part in evidence if part.session_id == "again"] == [("r0",), ("r1",), ("r2",)]


# Bounds


@pytest.mark.parametrize("max_tokens", [1, 20, 60, 120, 300, 800])
def test_no_budget_is_exceeded(rested: Stack, max_tokens: int) -> None:
    """Given long lines full of what has to be escaped, then the text is within the budget, and what does not fit is
    named."""
    chat(rested, *(f"<{at}> & {'<b>&</b> ' * 40}" for at in range(13)))
    made = service(rested, days=Diary(week="<&>" * 500))

    context = made.context(rested.tenant, "alice", "chat", QUESTION, max_tokens=max_tokens)

    assert estimated_tokens(context.text) <= context.tokens <= max_tokens
    assert "budget" in {reason for _, reason in why(context)}


def test_a_share_of_nothing_leaves_a_section_out(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> None:
    off = {"fractions": {"profile": 0, "evidence": 0, "today": 0, "week": 0}}
    with cloned(servers, grown, tmp_path, embedder, context=off) as running:
        chat(running, "Good morning!")
        context = running.memory.context("alice", question=QUESTION)

        assert {part.section.value for part in context.parts} == {"window"}
        assert why(context) == {(each, "off") for each in ("profile", "evidence", "today", "week")}


def test_a_channel_bounds_evidence_and_window(rested: Stack) -> None:
    question = "Who got the teal canoe?"

    both = rested.memory.context("guild", question=question, session="new")
    hall = rested.memory.context("guild", question=question, channel="hall")
    other = rested.memory.context("guild", "s-dm", question=question, channel="hall")

    assert {part.session_id for part in both.section("evidence")} == {"s-dm", "s-hall"}
    assert hall.session_id == "s-hall" and "Dora" not in hall.text and "Emil" in hall.text
    assert ("window", "channel") in why(other) and "Dora" not in other.text


def test_nothing_is_no_error(rested: Stack) -> None:
    nobody = rested.memory.context("nobody", "s1", "Where am I?")
    assert (bool(nobody), nobody.owner_known, nobody.text) == (False, False, "")
    assert len(nobody.left_out) == 5

    new = rested.memory.context("alice", "not yet")
    assert new.owner_known and {("window", "nothing"), ("evidence", "nothing")} <= why(new)
    assert new.section("profile")


def test_notes_and_a_session_that_has_just_begun_are_no_window(rested: Stack) -> None:
    chat(rested, "Good morning!")
    rested.memory.remember("alice", "I like jazz.")
    assert rested.memory.context("alice").session_id == "chat"

    rested.memory.session_start("alice", "tomorrow")
    assert rested.memory.context("alice").session_id == ""


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"max_tokens": True}, {"question": " "}, {"session": ""}, {"speaker": ""}]
)
def test_an_invalid_request_is_refused(rested: Stack, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        rested.memory.context("alice", **wrong)


# What it takes


def test_a_profile_has_a_fact_as_soon_as_it_comes(rested: Stack) -> None:
    def profile_lines() -> list[str]:
        return [part.text for part in rested.memory.context("alice", "new").section("profile")]

    assert "- Alice lives in Oslo." in profile_lines()
    rested.memory.remember("alice", "I moved to Miami.")
    rested.drive()

    assert any("Miami" in line for line in profile_lines()) and "- Alice lives in Oslo." not in profile_lines()


# What fails, and what is deleted


@dataclass(frozen=True)
class NoRecall(RecallService):
    def recall(self, *_args: Any, **_options: Any) -> Any:
        raise StoreUnavailable("Postgres is away.")


def test_a_part_that_fails_is_named_and_the_others_are_there(rested: Stack) -> None:
    chat(rested, "Good morning!")
    own = rested.services.recall
    broken = NoRecall(own.store, own.index, own.embedder, own.settings)

    context = service(rested, recall=broken, days=NoDays()).context(rested.tenant, "alice", "chat", QUESTION)

    assert {("evidence", "failed"), ("week", "failed")} <= why(context)
    assert len(context.degraded) == 3
    assert context.degraded[1].startswith("The digest of the week is missing: ")
    assert context.degraded[2].startswith("The evidence is missing: ")
    assert {part.section.value for part in context.parts} == {"profile", "today", "window"}


@pytest.mark.parametrize("delete", [{"session": "s2"}, {"session": "s2", "turns": ["t2"]}])
def test_words_of_a_deleted_turn_are_in_no_context(rested: Stack, delete: dict[str, Any]) -> None:
    """Given a context that showed a turn, when the turn is deleted, then neither its text nor any table has its
    words."""
    question = "What is my dog called?"
    assert "Quibovix" in rested.memory.context("alice", "new", question).text

    rested.memory.lifecycle.forget("alice", actor="test", **delete)
    rested.drive()

    assert in_tables(rested, ["quibovix"]) == {}
    context = rested.memory.context("alice", "s2", question)
    assert "Quibovix" not in json.dumps(context.to_dict())
    assert in_tables(rested, ["quibovix"]) == {}


# Faces
