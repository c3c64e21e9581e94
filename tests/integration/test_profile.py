"""Everyday requests on the real stack without a model: remember, forget in words, profile, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memforest_core import InvalidInput
from memforest_core.assistant.profile import describing
from memforest_core.assistant.profile.records import Forgetting, Made
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.models.calls import Embedder
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

DAY = 86_400
START = 1_714_000_000


def turn(text: str, day: int, **more: object) -> dict[str, object]:
    return {"id": f"t{day}", "role": "user", "content": text, "timestamp": START + day * DAY, **more}


SAID = (
    "I live in Oslo.",
    "I work at Initech.",
    "I like jazz.",
    "I have a dog named Rex.",
    "I have a cat named Tom.",
    "I am allergic to peanuts.",
    "I play the violin and I work on the weekend.",
)


def tell(running: Stack) -> None:
    client = running.memory.client
    for day, text in enumerate(SAID):
        client.enqueue("alice", f"s{day}", [turn(text, day)], display_name="Alice")
    client.enqueue(
        "alice", "friends", [turn("I work at Globex. I have a dog named Fido.", 20, speaker_id="u7", name="Bob")]
    )


def texts(found: Forgetting) -> set[str]:
    return {fact.text for fact in found.facts}


def pinned(running: Stack, owner: str = "alice") -> set[str]:
    return {fact.text for fact in running.memory.facts(owner, pinned=True).items}


def remembered(running: Stack, owner: str, *notes: str, about: str | None = None) -> None:
    """Notes, a day after another."""
    for day, text in enumerate(notes, start=100):
        running.memory.remember(owner, text, about, at=START + day * DAY)
        running.drive()


def test_a_note_is_pinned_and_the_newer_one_is_current(pipeline: Stack) -> None:
    memory = pipeline.memory
    remembered(pipeline, "ann", "I live in Oslo.", "I moved to Miami.")

    states = memory.timeline("ann", attribute="residence").states
    assert [(state.value, state.current) for state in states] == [("Oslo", False), ("Miami", True)]
    assert len(pinned(pipeline, "ann")) == 2
    known = memory.profile("ann")
    assert [(state.attribute, state.value) for state in known.states] == [("residence", "Miami")]
    assert (known.made, known.degraded, known.truncated, known.cached) == (Made.RULES, (), False, False)
    assert known.text == f"- {known.states[0].text}\n(Found by rules; a chat model finds more.)"
    assert known.fact_ids == known.states[0].fact_ids == known.sentences[0].fact_ids
    (first, second) = memory.sessions("ann").items
    assert first.id.startswith("note-") and second.id.startswith("note-")
    assert memory.recall("ann", "Where does Ann live?").evidence


def test_a_note_sent_again_is_the_same(pipeline: Stack) -> None:
    memory = pipeline.memory
    first = memory.remember("ann", "I live in Oslo.", session_id="n1", at=START)
    second = memory.remember("ann", "I live in Oslo.", session_id="n1", at=START)

    assert first == second and second.accepted.new_turns == 0
    with pytest.raises(InvalidInput, match="sentence"):
        memory.remember("ann", "  ")


def test_a_note_is_pinned_though_the_reducer_ends_before_it_commits(
    pipeline: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a note that is extracted, when the transaction that stores its facts ends half-way, then there is no fact,
    and the next worker's is pinned."""
    memory = pipeline.memory
    memory.remember("ann", "I live in Oslo.")
    while pipeline.runtime.extract():
        pass

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ReduceRows, "write_trees", killed)
        with pytest.raises(KeyboardInterrupt):
            pipeline.runtime.reduce()
    assert memory.facts("ann").items == ()

    pipeline.drive()

    (fact,) = memory.facts("ann").items
    assert fact.pinned


@pytest.mark.parametrize("about", ["u7", "Bob", "bob"])
def test_a_note_about_somebody_who_speaks_is_theirs(rested: Stack, about: str) -> None:
    remembered(rested, "alice", "I moved to Madrid.", about=about)

    for name in ("u7", "Bob"):
        known = rested.memory.profile("alice", name)
        assert known.about == "Bob"
        assert ("residence", "Madrid") in {(state.attribute, state.value) for state in known.states}
    assert "Madrid" not in rested.memory.profile("alice").text


def test_a_pinned_fact_that_is_no_state_is_in_the_profile(rested: Stack) -> None:
    remembered(rested, "alice", "I planted a lemon tree in the yard.")

    assert "lemon tree" in rested.memory.profile("alice").text


def test_a_profile_is_bounded(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cloned(servers, grown, tmp_path, embedder, profile={"max_facts": 1}) as running:
        assert (len(running.memory.profile("alice").states), running.memory.profile("alice").truncated) == (1, True)
    monkeypatch.setattr(describing, "MAX_STATES", 2)
    (tmp_path / "other").mkdir()
    with cloned(servers, grown, tmp_path / "other", embedder) as running:
        known = running.memory.profile("alice")
        assert (len(known.states), known.truncated) == (2, True)
        assert "peanuts" in known.text and "Oslo" not in known.text


FORGETTING: Sequence[tuple[str, set[str]]] = (
    ("where I live", {"Oslo"}),
    ("where I work", {"Initech"}),
    ("my job", {"Initech"}),
    ("that I like jazz", {"jazz"}),
    ("my dog", {"Rex"}),
    ("my cat Tom", {"Tom"}),
    ("that I am allergic to peanuts", {"peanuts"}),
    ("where Bob works", {"Globex"}),
    ("that I moved to Madrid", set()),
    ("my bank account", set()),
    ("my dog Tom", set()),
)


@pytest.mark.parametrize(("words", "expected"), FORGETTING)
def test_words_find_the_facts_that_they_mean(grown_once: Stack, words: str, expected: set[str]) -> None:
    found = grown_once.memory.forget("alice", words, dry_run=True)

    assert {
        word
        for word in ("Oslo", "Initech", "jazz", "Rex", "Tom", "peanuts", "Globex", "Fido", "violin")
        if any(word in text for text in texts(found))
    } == expected
    assert found.found is bool(expected)
    assert (found.made, found.dry_run, found.operations, found.degraded) == (Made.RULES, True, (), ())


def test_a_dry_run_changes_nothing(rested: Stack) -> None:
    before = rested.counts()

    found = rested.memory.forget("alice", "where I work", True)

    assert found.found and rested.counts() == before


def test_what_is_forgotten_is_gone_with_the_turn_that_said_nothing_else(rested: Stack) -> None:
    memory = rested.memory

    forgotten = memory.forget("alice", "where I work", actor="alice@example.org")
    rested.drive()
    done = memory.services.forgetter.with_receipts(memory.tenant, forgotten)

    assert [(place.session_id, place.turn_id) for place in done.turns] == [("s1", "t1")]
    assert done.left == () and len(done.receipts) == len(done.operations) == 1
    assert all(receipt.clean and receipt.actor == "alice@example.org" for receipt in done.receipts)
    assert in_tables(rested, ["Initech"]) == {}
    assert not memory.forget("alice", "where I work", True).found
    assert "Oslo" in memory.profile("alice").text


def test_a_turn_that_says_more_is_retained_and_named_unless_all_are_to_go(rested: Stack) -> None:
    memory = rested.memory

    forgotten = memory.forget("alice", "where Bob works")
    rested.drive()

    assert forgotten.turns == () and [place.session_id for place in forgotten.left] == ["friends"]
    assert not any("Globex" in fact.text for fact in memory.facts("alice").items)
    assert any("Fido" in fact.text for fact in memory.facts("alice").items)
    assert in_tables(rested, ["Globex"])

    whole = memory.forget("alice", "Bob's dog Fido", turns="all")
    rested.drive()

    assert [place.session_id for place in whole.turns] == ["friends"]
    assert in_tables(rested, ["Globex", "Fido"]) == {}


def test_turns_are_retained_when_only_facts_are_to_go(rested: Stack) -> None:
    forgotten = rested.memory.forget("alice", "where I live", turns="none")
    rested.drive()
    assert [place.session_id for place in forgotten.left] == ["s0"]
    assert not any("Oslo" in fact.text for fact in rested.memory.facts("alice").items)
    assert rested.memory.turns("alice", "s0").items[0].content == "I live in Oslo."


def test_forgetting_a_state_forgets_what_held_before_it(rested: Stack) -> None:
    """Else an address of years ago would be current."""
    remembered(rested, "alice", "I moved to Miami.")

    forgotten = rested.memory.forget("alice", "where I live")
    rested.drive()

    assert len(forgotten.facts) == 2
    assert in_tables(rested, ["Oslo", "Miami"]) == {}
    assert rested.memory.facts("alice", attribute="residence").items == ()


def test_a_forgotten_note_leaves_no_session(rested: Stack) -> None:
    rested.memory.remember("alice", "I planted a lemon tree in the yard.", session_id="n1")
    rested.drive()

    assert rested.memory.forget("alice", "the lemon tree").found
    rested.drive()

    assert "n1" not in {session.id for session in rested.memory.sessions("alice").items}
    assert in_tables(rested, ["lemon"]) == {}


def test_forgetting_a_correction_forgets_what_it_corrected(rested: Stack) -> None:
    memory = rested.memory
    (fact,) = memory.facts("alice", attribute="residence").items
    memory.lifecycle.correct("alice", fact.id, text="Alice lives in Bergen.", value="Bergen", actor="test")
    rested.drive()

    forgotten = memory.forget("alice", "that I live in Bergen")
    rested.drive()

    assert {"Alice lives in Bergen.", fact.text} == texts(forgotten)
    assert memory.facts("alice", attribute="residence").items == ()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ({"words": " "}, "invalid_words"),
        ({"words": "x" * 1_001}, "invalid_words"),
        ({"words": "my dog", "turns": "some"}, "invalid_turns"),
        ({"words": "my dog", "actor": ""}, "invalid_name"),
    ],
)
def test_requests_that_make_no_sense_are_refused(grown_once: Stack, call: dict[str, str], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        grown_once.memory.forget("alice", **call)  # type: ignore[arg-type]
    assert refused.value.code == code


def test_a_note_concurrent_with_the_deletion_of_its_owner_is_in_the_old_or_the_new_memory(rested: Stack) -> None:
    """Given a deletion of everything that is under way, when a note comes, then it is the new memory's alone."""
    memory = rested.memory
    memory.remember("alice", "I collect quibovix stamps.")
    memory.lifecycle.forget("alice", everything=True, actor="test")
    memory.remember("alice", "I live in Davis.")
    rested.drive()

    assert in_tables(rested, ["quibovix", "Initech"]) == {}
    assert [session.turns for session in memory.sessions("alice").items] == [1]
    assert {fact.text for fact in memory.facts("alice", pinned=True).items} == {
        fact.text for fact in memory.facts("alice").items
    }


def test_forgetting_concurrent_with_the_deletion_of_the_owner_ends(rested: Stack) -> None:
    forgotten = rested.memory.forget("alice", "where I work")
    whole = rested.memory.lifecycle.forget("alice", everything=True, actor="test")
    rested.drive()

    assert whole.state().finished
    assert all(rested.memory.lifecycle.operation(task).finished for task in forgotten.operations)
    assert in_tables(rested, ["Initech", "Oslo"]) == {}


def test_notes_stay_notes_in_bundles_merges_and_rebuilds(rested: Stack, tmp_path: Path) -> None:
    """Given a pinned note, one that was unpinned, and one that waits, when the memory is copied in any way, then pins
    are as they were, and what waits is pinned when it is placed."""
    memory = rested.memory
    remembered(rested, "alice", "I moved to Miami.", "I started a job at Hooli.")
    (job,) = (fact for fact in memory.facts("alice", pinned=True).items if "Hooli" in fact.text)
    memory.lifecycle.unpin("alice", job.id, actor="test")
    rested.drive()
    assert len(pinned(rested)) == 1

    memory.lifecycle.export("alice", tmp_path / "alice.memforest", actor="test")
    memory.lifecycle.import_(tmp_path / "alice.memforest", "copy", actor="test")
    rested.drive()
    assert pinned(rested, "copy") == pinned(rested)

    memory.lifecycle.rematerialize("alice", actor="test")
    rested.drive()
    assert pinned(rested) == pinned(rested, "copy")

    memory.remember("copy", "I adopted a parrot named Kiwi.")
    memory.lifecycle.merge(["copy"], "joined", actor="test")
    rested.drive()
    assert any("Kiwi" in text for text in pinned(rested, "joined"))
    notes = rested.rows(
        "SELECT f.owner, count(*) FROM memforest.session s JOIN memforest.forest f USING (forest_id)"
        " WHERE s.note AND f.state = 'live' GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in notes] == [("alice", 2), ("joined", 3)]
