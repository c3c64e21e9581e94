"""Speakers under changing names, nicknames and mentions, on the real stack: one tree each, and nothing left of a name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import default_answer, messages_of, wants_extraction
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.rendered_windows import parse_window
from tests.harness.searching import in_points, in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

CLUB = "climbing-club"
START = 1_714_000_000
DAY = 86_400

SAID = (
    (0, "general", "111", "gruz", "I live in Lyon."),
    (0, "general", "222", "Florent", "I work at a bakery in Grenoble."),
    (1, "general", "333", "Mira", "I have a dog named Pixel."),
    (2, "trips", "222", "Florent", "gruz is a great cook."),
    (3, "trips", "333", "Mira", "<@111> is a fast climber."),
    (4, "general", "111", "gruzilkin", "I moved to Annecy."),
    (5, "general", "222", "Florent", "gruzilkin is a generous man."),
    (6, "trips", "333", "Mira", "@gruzil is a funny guy."),
    (7, "trips", "111", "gruzilkin", "Florent is a strong climber."),
    (8, "general", "222", "Florent", "I will mark the route in may, mira is a good belayer."),
)


def turn(day: int, speaker: str, name: str, text: str) -> dict[str, object]:
    at = START + day * DAY
    return {"role": "user", "speaker_id": speaker, "name": name, "content": text, "timestamp": at}


def tell(running: Stack) -> None:
    for day, channel, speaker, name, text in SAID:
        running.memory.enqueue(CLUB, f"{channel}-{day}-{speaker}", [turn(day, speaker, name, text)], channel=channel)


def trees(running: Stack, owner: str = CLUB) -> dict[str, tuple[str, set[str]]]:
    """For each entity with a tree its label and the texts of its leaves, by key."""
    found: dict[str, tuple[str, set[str]]] = {}
    for key, label, text in running.rows(
        """SELECT r.scope_key, r.label, x.text FROM memforest.forest f JOIN memforest.tree r USING (forest_id)
             JOIN memforest.node n ON n.tree_id = r.tree_id JOIN memforest.fact x ON x.fact_id = n.payload_id
            WHERE f.owner = :o AND f.state = 'live' AND r.kind = 'entity' ORDER BY 1""",
        o=owner,
    ):
        found.setdefault(str(key), (str(label), set()))[1].add(str(text))
    return found


def broken(running: Stack) -> dict[str, Mapping[str, int]]:
    """What is wrong, by check: nothing."""
    services = running.services
    report = open_verification(services.engine, services.index, services.settings).run(None, None, False)
    return {str(check.check): check.kinds for check in report.checks if check.violations}


def rebuild(running: Stack, *, extract: bool = False) -> None:
    """Rebuild the memory next to the live one, and switch; nobody waits for back-offs."""
    rules = None if extract else {"session_k": 4}
    running.memory.lifecycle.rematerialize(CLUB, rules=rules, extract=extract, actor="tests")
    for _ in range(30):
        running.execute("UPDATE memforest.maintenance SET available_at = now() WHERE state = 'ready'")
        running.drive(due=False)
        if len(running.rows("SELECT 1 FROM memforest.forest")) == 1 and not running.rows(
            "SELECT 1 FROM memforest.maintenance WHERE state IN ('ready', 'running')"
        ):
            return
    raise AssertionError("the rebuild does not end")


def test_each_speaker_has_one_tree_under_the_id_with_the_newest_name(grown_once: Stack) -> None:
    found = trees(grown_once)

    assert {key: label for key, (label, _) in found.items()} == {"111": "gruzilkin", "222": "Florent", "333": "Mira"}
    assert found["111"][1] == {
        "gruz lives in Lyon.",
        "Gruz is a great cook.",
        "Gruzilkin is a fast climber.",
        "gruzilkin moved to Annecy.",
        "Gruzilkin is a generous man.",
        "Gruzilkin is a funny guy.",
    }
    assert "Florent is a strong climber." in found["222"][1]
    assert any("Mira is a good belayer" in text for text in found["333"][1])
    assert broken(grown_once) == {}


def test_who_said_it_is_not_whom_it_is_about(grown_once: Stack) -> None:
    [fact] = [each for each in grown_once.memory.facts(CLUB, about="gruz").items if "great cook" in each.text]

    assert (fact.statement.subject, fact.statement.speaker) == ("Gruz", "Florent")
    subjects = grown_once.rows("SELECT subject_key FROM memforest.fact WHERE text LIKE 'Gruz%' OR text LIKE 'gruz%'")
    assert {str(row[0]) for row in subjects} == {"111"}


@pytest.mark.parametrize("about", ["111", "gruz", "gruzilkin", "Gruzilkin", "<@111>", "@gruz", "gruzil"])
def test_a_profile_is_found_by_id_name_nickname_and_mention(grown_once: Stack, about: str) -> None:
    profile = grown_once.memory.profile(CLUB, about=about)

    assert profile.about == "gruzilkin"
    assert "Annecy" in profile.text and "Lyon" not in profile.text
    states = grown_once.memory.timeline(CLUB, entity=about, attribute="residence").states
    assert [state.value for state in states] == ["Lyon", "Annecy"]


@pytest.mark.parametrize("speaker", ["111", "gruz", "<@111>"])
def test_a_context_is_that_of_the_speaker_within_a_channel_too(grown_once: Stack, speaker: str) -> None:
    context = grown_once.memory.context(CLUB, question="Who lives where?", speaker=speaker, channel="general")

    assert any("Annecy" in part.text for part in context.section("profile"))
    parts = grown_once.memory.recall(CLUB, "Where does he live?", speakers=["111"], channels=["general"]).evidence
    assert {piece.speaker for piece in parts} == {"gruz", "gruzilkin"}


@pytest.mark.parametrize("question", ["What do you know about gruz?", "Who is <@111>?", "What does gruzil like?"])
def test_recall_browses_the_tree_of_whom_a_question_means(grown_once: Stack, question: str) -> None:
    found = grown_once.memory.recall(CLUB, question, k=20, trees=["entity"], neighbours=0).evidence

    assert any("Annecy" in piece.text for piece in found)


def test_a_tree_from_before_the_id_was_known_goes_on(pipeline: Stack) -> None:
    """Given a speaker without an id, and with a tree of that name, when the id comes, then the tree goes on."""
    first = {"role": "user", "name": "gruz", "content": "I live in Lyon.", "timestamp": START}
    pipeline.memory.enqueue(CLUB, "s0", [first])
    pipeline.drive()
    assert set(trees(pipeline)) == {"gruz"}

    pipeline.memory.enqueue(CLUB, "s1", [turn(1, "111", "gruz", "I like jazz.")])
    pipeline.memory.enqueue(CLUB, "s2", [turn(2, "111", "gruzilkin", "I moved to Annecy.")])
    pipeline.drive()

    assert {key: (label, len(texts)) for key, (label, texts) in trees(pipeline).items()} == {"gruz": ("gruzilkin", 3)}
    assert "Annecy" in pipeline.memory.profile(CLUB, about="gruz").text
    assert broken(pipeline) == {}

    rebuild(pipeline)

    assert {key: (label, len(texts)) for key, (label, texts) in trees(pipeline).items()} == {"111": ("gruzilkin", 3)}
    assert broken(pipeline) == {}


def test_two_speakers_of_one_name_have_a_tree_each(pipeline: Stack) -> None:
    pipeline.memory.enqueue(CLUB, "s0", [turn(0, "1", "Alex", "I live in Lyon.")])
    pipeline.memory.enqueue(CLUB, "s1", [turn(1, "2", "Alex", "I live in Oslo.")])
    pipeline.memory.enqueue(CLUB, "s2", [turn(2, "3", "Mira", "Alex is a carpenter.")])
    pipeline.drive()

    found = trees(pipeline)
    assert (found["1"][1], found["2"][1]) == ({"Alex lives in Lyon."}, {"Alex lives in Oslo."})
    assert "Oslo" not in pipeline.memory.profile(CLUB, about="1").text
    assert not any("carpenter" in text for key in ("1", "2") for text in found[key][1])
    [state] = pipeline.memory.profile(CLUB, about="Alex").states
    assert "carpenter" in state.text, "what is said of the name alone"
    contexts = [pipeline.memory.context(CLUB, question="Where?", speaker=speaker) for speaker in ("alex", "1")]
    assert [any("Several people" in note for note in each.degraded) for each in contexts] == [True, False]


def test_the_owner_has_one_tree_of_all_that_is_about_the_owner(pipeline: Stack) -> None:
    memory = pipeline.memory
    memory.enqueue("u-17", "s0", [turn(0, "u-17", "u-17", "I live in Oslo.")], display_name="Alice")
    memory.enqueue("u-17", "s1", [turn(1, "u-17", "Ali", "My sister Clara has a dog.")])
    chat = [turn(2, "u-17", "Ali", "I am back."), turn(3, "b", "Ben", "Clara told me you left.")]
    memory.enqueue("u-17", "s2", [*chat, turn(4, "b", "Ben", "ali is kind.")])
    pipeline.drive()

    label, texts = trees(pipeline, "u-17")["u 17"]
    assert label == "Alice"
    assert {"Alice lives in Oslo.", "Ali is kind."} <= texts
    assert any("Clara has a dog" in text for text in texts)
    assert not any("told" in text for text in texts)
    assert [key for key in trees(pipeline, "u-17") if key in {"alice", "ali"}] == []


def test_two_memories_of_a_speaker_under_different_names_become_one(pipeline: Stack) -> None:
    memory = pipeline.memory
    memory.enqueue("club-a", "a0", [turn(0, "111", "gruz", "I live in Lyon."), turn(1, "111", "gruz", "I like jazz.")])
    memory.enqueue("club-b", "b0", [turn(5, "111", "gruzilkin", "I have a dog named Pixel.")])
    bare = {"role": "user", "name": "Mira", "content": "I live in Oslo.", "timestamp": START}
    memory.enqueue("club-a", "a1", [bare])
    memory.enqueue("club-b", "b1", [turn(6, "333", "Mira", "I like tea.")])
    pipeline.drive()

    memory.lifecycle.merge(["club-b"], "club-a", actor="tests")
    pipeline.drive()

    found = trees(pipeline, "club-a")
    assert {key: (label, len(texts)) for key, (label, texts) in found.items()} == {
        "111": ("gruzilkin", 3),
        "mira": ("Mira", 2),
    }
    assert broken(pipeline) == {}
    assert len(memory.profile("club-a", about="gruz").states) == 3
    memory.enqueue("club-a", "a2", [turn(9, "333", "Mira", "I have a cat named Tom.")])
    pipeline.drive()
    assert len(trees(pipeline, "club-a")["mira"][1]) == 3


def test_nothing_is_left_of_a_forgotten_speakers_names(pipeline: Stack) -> None:
    """Given a speaker of two names, when the words under the newer are forgotten, then the tree has the older name;
    when all are, then no table and no point has either."""
    memory = pipeline.memory
    memory.enqueue(
        CLUB, "s0", [turn(0, "111", "quibnezovix", "I live in Lyon."), turn(0, "222", "Florent", "I like tea.")]
    )
    memory.enqueue(CLUB, "s1", [turn(1, "111", "barlurovix", "I have a dog named Pixel.")])
    pipeline.drive()
    assert trees(pipeline)["111"][0] == "barlurovix"
    assert memory.profile(CLUB, about="barl").states

    memory.lifecycle.forget(CLUB, session="s1", actor="tests")
    pipeline.drive()

    assert trees(pipeline)["111"][0] == "quibnezovix"
    assert in_tables(pipeline, ["barlurovix"]) == {}
    assert in_points(pipeline, ["barlurovix"]) == []

    memory.lifecycle.forget(CLUB, speaker="111", actor="tests")
    pipeline.drive()

    assert in_tables(pipeline, ["quibnezovix", "barlurovix"]) == {}
    assert in_points(pipeline, ["quibnezovix", "barlurovix"]) == []
    assert set(trees(pipeline)) == {"222"}
    assert broken(pipeline) == {}


def shown_by(body: Mapping[str, Any]) -> str:
    """What an extraction call shows, also when it is called again for a better answer."""
    return next(text for role, text in messages_of(body) if role == "user")


def naming(body: Mapping[str, Any]) -> str:
    """A model that names people as they are called in the turns: by nickname and mention."""
    if not wants_extraction(body):
        return default_answer(body)
    items = []
    for each in parse_window(shown_by(body)).turns:
        if "cook" in each.text:
            item = {"text": "<@111> is a great cook.", "subject": "<@111>", "entities": ["<@111>", "Lyon"]}
        elif "climber" in each.text:
            item = {"text": "gruzil is a fast climber.", "subject": "gruzil", "speaker": "flor"}
        else:
            item = {"text": f"{each.speaker} said: {each.text}", "subject": each.speaker}
        items.append({"turns": [each.number], "quote": each.text, "speaker": each.speaker} | item)
    return json.dumps({"items": items, "summaries": []})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1, answer=naming) as running:
        yield running


GIVEN = [
    turn(0, "111", "gruz", "I live in Lyon."),
    turn(1, "111", "gruzilkin", "I moved to Annecy."),
    turn(2, "222", "Florent", "<@111> is a great cook in Lyon."),
    turn(3, "222", "Florent", "gruzil is a fast climber."),
]


@pytest.mark.parametrize("fault", [None, Fault.MALFORMED])
def test_what_a_model_calls_by_mention_or_nickname_is_the_speaker(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, server: ModelServer, fault: Fault | None
) -> None:
    """Also after an answer that could not be used."""
    llm = {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1", "timeout_s": 5.0}
    with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
        for number, each in enumerate(GIVEN):
            running.memory.enqueue(CLUB, f"s{number}", [each])
        if fault is not None:
            server.script(fault)
        running.drive()

        found = trees(running)
        assert found["111"][0] == "gruzilkin"
        assert {"Gruzilkin is a great cook.", "gruzil is a fast climber."} <= found["111"][1]
        facts = [each.statement for each in running.memory.facts(CLUB, about="111").items]
        about = {each.text: (each.subject, each.speaker) for each in facts}
        assert about["Gruzilkin is a great cook."] == ("Gruzilkin", "Florent")
        assert about["gruzil is a fast climber."] == ("Gruzilkin", "Florent")
        assert broken(running) == {}
        reported = [
            line for one in server.requests if wants_extraction(one.body) for line in shown_by(one.body).splitlines()
        ]
        assert "Gruzilkin <@111>, also gruzilkin, also gruz" in reported
        paid = len(server.requests)
        rebuild(running, extract=True)
        extractions = [one for one in server.requests[paid:] if wants_extraction(one.body)]
        assert extractions == [], "answers that were paid for are used again"
