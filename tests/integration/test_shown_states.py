"""What is shown of states: who found them, in which words, and whether they are denied."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from memforest_core.domain.facts import Polarity, Source
from memforest_core.models.calls import Embedder
from memforest_core.recall import cli as timeline_command
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.keys.service import Keys
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

NOTE = "Found by rules; a chat model finds more."


def tell(running: Stack) -> None:
    running.memory.ingest("bob", "s1", said("I live in Davis.", "I hate fish.", "Oh, the weather!"))
    running.memory.ingest("ann", "s1", said("The kettle is loud.", name="Ann"))


def page(running: Stack, path: str) -> str:
    """A page as an administrator sees it."""
    server = HttpServer(running.memory, listen("127.0.0.1", 0))
    server.start()
    try:
        with httpx.Client(base_url=server.address, timeout=60.0) as browser:
            key = Keys(running.services.engine).create(running.tenant, "looker", scope="admin").secret
            browser.post("/login", data={"key": key}, headers={"Sec-Fetch-Site": "same-origin"})
            return browser.get(path).text
    finally:
        server.stop()


def test_a_state_by_rules_names_its_source_and_quotes_its_words(grown_once: Stack) -> None:
    memory = grown_once.memory
    state = next(state for state in memory.timeline("bob").states if state.value == "Davis")
    assert (state.source, state.quote, state.planned) == (Source.RULES, "I live in Davis.", False)
    known = memory.profile("bob")
    assert [(each.value, each.source, each.quote, each.polarity) for each in known.states][:1] == [
        ("Davis", Source.RULES, "I live in Davis.", Polarity.POSITIVE)
    ]
    assert memory.timeline("bob").to_dict()["states"][0]["source"] == "rules"
    assert known.to_dict()["states"][0]["quote"] == "I live in Davis."


def test_profile_and_context_say_once_that_rules_found_it(grown_once: Stack) -> None:
    memory = grown_once.memory
    known = memory.profile("bob")
    assert known.text.count(NOTE) == 1 and known.text.splitlines()[-1] == f"({NOTE})"
    assert "\n".join(sentence.text for sentence in known.sentences) == known.text
    assert memory.context("bob", question="Where does Bob live?").text.count(NOTE) == 1


def test_where_nothing_is_known_nothing_is_said_of_rules(grown_once: Stack) -> None:
    assert grown_once.memory.profile("ann").text == ""
    assert NOTE not in grown_once.memory.context("ann", question="Is the kettle loud?").text


def test_a_dislike_reads_as_one_in_the_timeline(grown_once: Stack) -> None:
    state = next(state for state in grown_once.memory.timeline("bob").states if state.value == "fish")
    assert (state.polarity, state.shown, state.quote) == (Polarity.NEGATIVE, "dislikes fish", "I hate fish.")


def test_the_pages_show_source_quote_and_dislike(grown_once: Stack) -> None:
    states = page(grown_once, "/states?owner=bob")
    assert (
        re.search("rules:</span> <q><bdi>I live in Davis.", states)
        and "dislikes fish" in states
        and states.count(NOTE) == 1
    )
    owner = page(grown_once, "/owner?owner=bob")
    assert "rules: “I live in Davis.”" in owner and owner.count(NOTE) == 1
    assert page(grown_once, "/facts?owner=bob").count(NOTE) == 1


def test_the_command_prints_source_and_quote(grown_once: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", grown_once.settings.database.url.get_secret_value())
    program = typer.Typer()
    program.callback()(lambda: None)
    program.command()(timeline_command.timeline)
    printed = CliRunner().invoke(program, ["timeline", "-o", "bob", "-a", "residence"]).stdout
    assert 'rules: "I live in Davis."' in printed and printed.splitlines()[-1].endswith(NOTE)


def test_a_correction_is_a_persons_and_has_no_quote(rested: Stack) -> None:
    old = rested.memory.timeline("bob", attribute="residence").states[0]
    rested.memory.lifecycle.correct("bob", old.fact_id, value="Chico", actor="test")
    rested.drive()
    now = [state for state in rested.memory.timeline("bob", attribute="residence").states if state.current]
    assert [(state.value, state.source, state.quote) for state in now] == [("Chico", Source.PERSON, "")]


def test_sources_travel_in_a_bundle(rested: Stack, tmp_path: Path) -> None:
    file = tmp_path / "bob.bundle"
    rested.memory.lifecycle.export("bob", file, actor="test")
    rested.memory.lifecycle.import_(file, "bobby", actor="test")
    rested.drive()
    state = rested.memory.timeline("bobby", entity="Bob", attribute="residence").states[0]
    assert (state.source, state.quote) == (Source.RULES, "I live in Davis.")


def test_what_was_stored_before_sources_were_has_none(rested: Stack) -> None:
    for table in ("fact", "candidate"):
        rested.execute(f"UPDATE memforest.{table} SET statement = statement - 'source'")
    known = rested.memory.profile("bob")
    assert known.states[0].source is None and NOTE not in known.text


def test_a_models_state_names_the_model_and_no_rules(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with ModelServer() as model:
        llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"}
        with stack(servers, tmp_path, embedder=embedder, llm=llm) as running:
            running.memory.ingest("bob", "s1", said("I live in Davis."))
            running.drive()
            assert {fact.statement.source for fact in running.memory.facts("bob").items} == {Source.MODEL}
            assert NOTE not in page(running, "/facts?owner=bob")
