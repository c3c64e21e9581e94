"""Commands in words of people in a group, on the real stack: aliases, notes about somebody, and forgetting for a member."""

from __future__ import annotations

from pathlib import Path

import pytest

from memforest_core import InvalidInput
from memforest_core.assistant.profile.records import IntentKind, Made
from tests.harness.searching import in_tables
from tests.harness.stack import Stack

GROUP = "guild"
START = 1_714_000_000
DAY = 86_400


def turn(day: int, speaker: str, name: str, text: str) -> dict[str, object]:
    return {"role": "user", "speaker_id": speaker, "name": name, "content": text, "timestamp": START + day * DAY}


def tell(running: Stack) -> None:
    client = running.memory.client
    for day, (speaker, name, text) in enumerate(
        (
            ("111", "gruzilkin", "I live in Annecy."),
            ("222", "Florent", "I live in Lyon."),
            ("333", "Mira", "Sergey is a great cook."),
            ("444", "Bob", "I live in Oslo."),
        )
    ):
        client.enqueue(GROUP, f"s{day}", [turn(day, speaker, name, text)])


def obey(running: Stack, text: str, speaker: str) -> str:
    """What an application does with a text; what it says."""
    memory = running.memory
    wanted = memory.intent(text, GROUP, speaker=speaker, addressees=["bot"])
    if wanted.kind is IntentKind.REMEMBER:
        memory.remember(GROUP, wanted.object, wanted.about, alias=wanted.alias, at=START + 9 * DAY)
    elif wanted.kind is IntentKind.FORGET:
        memory.forget(GROUP, wanted.object, about=wanted.about)
    running.drive()
    known = wanted.kind in (IntentKind.ABOUT, IntentKind.ABOUT_ME)
    return memory.profile(GROUP, wanted.about).text if known else wanted.kind.value


def found_by(running: Stack, owner: str, name: str) -> tuple[bool, ...]:
    """Whether a name leads to the person who lives in Annecy: by profile, timeline, facts, context and recall."""
    memory = running.memory
    try:
        states = memory.timeline(owner, entity=name, attribute="residence").states
    except InvalidInput:
        states = ()
    return (
        "Annecy" in memory.profile(owner, name).text,
        [state.value for state in states] == ["Annecy"],
        any("Annecy" in fact.text for fact in memory.facts(owner, about=name).items),
        any("Annecy" in part.text for part in memory.context(owner, question="Hi!", speaker=name).section("profile")),
        any(
            "Annecy" in piece.text
            for piece in memory.recall(owner, f"Who is {name}?", k=9, trees=["entity"], neighbours=0).evidence
        ),
    )


def test_an_alias_finds_the_person_until_it_is_forgotten(rested: Stack, tmp_path: Path) -> None:
    memory = rested.memory
    assert found_by(rested, GROUP, "Sergey")[:4] == (False,) * 4

    assert obey(rested, "Bot remember that gruzilkin is Sergey", "Mira") == "remember"

    assert found_by(rested, GROUP, "Sergey") == (True,) * 5
    assert memory.profile(GROUP, "Sergey").about == "gruzilkin", "an alias is no newer name"
    assert any("great cook" in fact.text for fact in memory.facts(GROUP, about="111").items)
    assert "Annecy" in obey(rested, "bot, who is Sergey?", "Mira")

    memory.lifecycle.export(GROUP, tmp_path / "guild.memforest", actor="test")
    memory.lifecycle.import_(tmp_path / "guild.memforest", "copy", actor="test")
    rested.drive()
    assert found_by(rested, "copy", "Sergey") == (True,) * 5
    memory.client.enqueue("other", "s9", [turn(3, "999", "Ann", "I live in Rome.")])
    rested.drive()
    memory.lifecycle.merge(["copy"], "other", actor="test")
    rested.drive()
    memory.lifecycle.rematerialize(GROUP, actor="test")
    rested.drive()
    assert found_by(rested, "other", "Sergey") == found_by(rested, GROUP, "Sergey") == (True,) * 5

    assert obey(rested, "Bot forget that gruzilkin is Sergey", "Mira") == "forget"

    assert found_by(rested, GROUP, "Sergey")[:4] == (False,) * 4
    assert "Annecy" in memory.profile(GROUP, "gruzilkin").text
    assert rested.rows(
        "SELECT count(*) FROM memforest.speaker s JOIN memforest.forest f USING (forest_id)"
        " WHERE f.owner = 'guild' AND s.name = 'Sergey'"
    ) == [(0,)]


def test_two_who_both_speak_are_never_one(rested: Stack) -> None:
    memory = rested.memory

    said = memory.remember(GROUP, "gruzilkin is Bob")
    with pytest.raises(InvalidInput, match="somebody else") as refused:
        memory.remember(GROUP, "They are the same.", "Florent", alias="Bob")
    rested.drive()

    assert "'Bob' is the name of somebody else who speaks here" in said.degraded and refused.value.code == "alias_taken"
    assert memory.profile(GROUP, "Bob").about == "Bob" and "Oslo" in memory.profile(GROUP, "Bob").text
    assert "Oslo" not in memory.profile(GROUP, "111").text


def test_a_note_sent_again_is_the_same_and_days_have_the_name_that_is_spoken_under(rested: Stack) -> None:
    memory = rested.memory
    first = memory.remember(GROUP, "gruzilkin is Sergey", at=START, session_id="n1")
    memory.client.enqueue(GROUP, "s9", [turn(0, "999", "Sergey", "I live in Rome.")])

    repeated = memory.remember(GROUP, "gruzilkin is Sergey", at=START, session_id="n1")
    names = [speaker.name for speaker in memory.day(GROUP, "2024-04-24").speakers]

    assert (first.accepted.new_turns, repeated.accepted.new_turns) == (1, 0)
    assert sorted(names) == ["Sergey", "gruzilkin"]


def test_a_name_of_notes_alone_becomes_an_alias(rested: Stack) -> None:
    memory = rested.memory
    memory.remember(GROUP, "I collect stamps.", about="Kim")
    assert memory.remember(GROUP, "On another server it is Kim.", about="111", alias="Kim").degraded == ""
    rested.drive()

    known = memory.profile(GROUP, "Kim")
    assert known.about == "gruzilkin" and "Annecy" in known.text and "stamps" in known.text


@pytest.mark.parametrize(
    "text",
    ["weird", "Ann hates my boat", "he hates olives", "bring the blue cooler on Saturdays", "Ann lives in Rome."],
)
def test_a_note_about_somebody_is_in_the_profile_and_is_forgotten(rested: Stack, text: str) -> None:
    memory = rested.memory
    memory.remember(GROUP, text, about="Florent", at=START + 9 * DAY, session_id="n1")
    rested.drive()

    (note,) = (state for state in memory.profile(GROUP, "222").states if not state.attribute)
    assert note.text == f'"{note.quote}" (noted on Friday 3 May 2024)' and note.quote in text and note.fact_ids
    assert note.text not in memory.profile(GROUP, "Mira").text

    memory.lifecycle.forget(GROUP, session="n1", actor="test")
    rested.drive()
    assert [state.attribute for state in memory.profile(GROUP, "222").states] == ["residence"]
    assert in_tables(rested, [text]) == {}


def test_words_of_a_corrected_note_are_those_of_the_correction(rested: Stack) -> None:
    memory = rested.memory
    memory.remember(GROUP, "bring the blue cooler", about="Florent")
    rested.drive()
    (fact,) = memory.facts(GROUP, pinned=True).items
    memory.lifecycle.correct(GROUP, fact.id, text="Florent brings the red cooler.", actor="test")
    rested.drive()

    assert "red cooler" in memory.profile(GROUP, "222").text and "blue" not in memory.profile(GROUP, "222").text


@pytest.mark.parametrize(("speaker", "gone", "stays"), [("Florent", "222", "444"), ("444", "444", "222")])
def test_i_in_a_request_to_forget_is_who_wrote_it(rested: Stack, speaker: str, gone: str, stays: str) -> None:
    assert obey(rested, "hey bot, forget where I live", speaker) == "forget"

    assert rested.memory.profile(GROUP, gone).states == () and rested.memory.profile(GROUP, stays).states


def test_a_text_acts_only_when_the_application_does(rested: Stack) -> None:
    before = rested.counts()

    wanted = rested.memory.intent("Bot remember that gruzilkin is Sergey", GROUP, speaker="333")

    assert (wanted.kind, wanted.about, wanted.alias, wanted.made) == (IntentKind.REMEMBER, "111", "Sergey", Made.RULES)
    assert rested.counts() == before and rested.memory.intent("Bot, forget it", GROUP).kind is IntentKind.NONE
    with pytest.raises(InvalidInput):
        rested.memory.intent("hi", GROUP, addressees=[])
