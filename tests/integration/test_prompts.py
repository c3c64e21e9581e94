"""Instructions from files, as a model over HTTP gets them; and nothing that was made without them is used again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.lifecycle.rebuild.records import Options
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedder
from memforest_core.settings import DatabaseSettings
from tests.harness.model_answers import default_answer, messages_of, wants_extraction
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, copy_index, database, empty_index, opened, settings_for

LAMPS = said(*(f"I bought {n} brass lamps for the long house by the harbour in Oslo." for n in range(2, 14)))
STEPS = ("extract", "summarize", "browse", "plan", "rewrite", "answer", "profile", "window", "calendar")
OWN = {name: f"Mind the {name}." for name in STEPS}


def answering(body: Mapping[str, Any]) -> str:
    """A model that ranks, plans, completes, answers, extracts and summarizes."""
    shown = messages_of(body)[-1][1]
    if shown.startswith("=== evidence"):
        return json.dumps({"answer": "Lamps.", "citations": [1], "supported": True})
    if wants_extraction(body):
        return default_answer(body)
    document = json.loads(shown)
    if "question" in document and "children" in document:
        return json.dumps({"order": [1], "none_relevant": False})
    if "question" in document and "trees" in document:
        return json.dumps({"question_type": "single", "plan": "direct", "trees": []})
    if "question" in document:
        return json.dumps({"question": "What did Bob buy in Oslo?"})
    if "states" in document:
        return json.dumps({"sentences": [{"text": "Lives in Oslo.", "states": [1]}]})
    if "speakers" in document:
        long = "They spoke of lamps at length, of each of them. " * 11
        return json.dumps({"digests": [{"number": each["number"], "text": long} for each in document["speakers"]]})
    if "so_far" in document:
        return json.dumps({"summary": "They spoke of lamps."})
    return default_answer(body)


@dataclass
class Ground:
    """A database and an index that stacks are opened over, one after the other."""

    address: DatabaseSettings
    broker: str
    place: Path
    embedder: Embedder
    server: ModelServer

    @contextmanager
    def opened(self, **prompts: Path) -> Iterator[Stack]:
        llm = {"model": "openai/test-model", "api_base": self.server.url, "api_key": "test"}
        settings = settings_for(
            self.address, self.broker, self.place, llm=llm, prompts=prompts, refresh={"budget_chars": 200}
        )
        with opened(settings, self.embedder) as running:
            yield running

    def systems(self, words: str) -> list[str]:
        """The system messages of the calls whose answers have this schema's name, or for none of the summaries."""
        found = []
        for call in self.server.requests:
            if call.path.endswith("/completions"):
                schema = (call.body.get("response_format") or {}).get("json_schema", {}).get("name", "summary")
                if schema == words:
                    found.append(messages_of(call.body)[0][1])
        return found


@pytest.fixture
def ground(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Ground]:
    place = tmp_path / "index"
    copy_index(empty_index(embedder.model, embedder.dimension), place)
    with ModelServer(answer=answering) as server, database(servers) as address:
        yield Ground(address, servers.broker_url, place, embedder, server)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.txt" for name in OWN}
    for name, path in paths.items():
        path.write_text(OWN[name])
    return paths


def test_each_step_gets_its_own_instructions_and_then_how_its_input_is_framed(
    ground: Ground, files: dict[str, Path]
) -> None:
    with ground.opened(**files) as running:
        memory = running.memory
        memory.ingest("bob", "s1", LAMPS)
        running.drive()
        memory.recall("bob", "And what did he buy?", mode="planner", session_id="s1")
        assert memory.answer("bob", "What did Bob buy?").text == "Lamps."
        memory.remember("bob", "I live in Oslo.")
        running.drive()
        assert memory.profile("bob").text == "Lives in Oslo."
        for number in range(12):
            memory.append("bob", "s2", {"role": "user", "content": f"{number}: {'a long story ' * 20}"})
        assert memory.window("bob", "s2").compacted
        assert memory.period("bob", "life").text
    for schema, name in (
        ("extraction", "extract"),
        ("summary", "summarize"),
        ("ranking", "browse"),
        ("plan", "plan"),
        ("rewriting", "rewrite"),
        ("answer", "answer"),
        ("profile", "profile"),
        ("window_summary", "window"),
        ("day_digests", "calendar"),
        ("period_summary", "calendar"),
    ):
        systems = ground.systems(schema)
        assert systems, schema
        assert all(system.startswith(OWN[name] + "\n\n") and "data" in system for system in systems), schema


def test_other_instructions_find_nothing_that_was_paid_for_without_them(ground: Ground, files: dict[str, Path]) -> None:
    """Given a forest made with the built-in prompts, when workers come with others, then what is made again needs new
    calls, stored summaries stay valid until then, and going back finds what was paid for."""
    with ground.opened() as running:
        running.memory.ingest("bob", "s1", LAMPS)
        running.drive()
    before = {schema: len(ground.systems(schema)) for schema in ("extraction", "summary")}
    assert all(before.values())

    with ground.opened(extract=files["extract"], summarize=files["summarize"]) as running:
        report = open_verification(running.services.engine, running.services.index, running.settings).run()
        assert [check.check for check in report.checks if check.violations] == []
        plan = planned(running, Options(extract=True))
        repeated(running)
        requested = {schema: len(ground.systems(schema)) - before[schema] for schema in before}
        assert requested["extraction"] == plan["extraction_calls"] == before["extraction"]
        assert requested["summary"] == before["summary"]
        marks = {row.model for row in running.rows("SELECT DISTINCT model FROM memforest.node_summary")}
        assert len(marks) == 1
        assert "prompt:" in marks.pop()
        report = open_verification(running.services.engine, running.services.index, running.settings).run()
        assert [check.check for check in report.checks if check.violations] == []

    before = {schema: len(ground.systems(schema)) for schema in before}
    with ground.opened() as running:
        repeated(running)
        assert {schema: len(ground.systems(schema)) for schema in before} == before


def planned(running: Stack, options: Options) -> dict[str, int]:
    planner = running.services.lifecycle.rematerializing
    found = planner.plan(TenantId(running.settings.tenant), "bob", options)
    return {name: int(value) for name, value in found.numbers().items()}


def repeated(running: Stack) -> None:
    """Read all cells again and make all nodes dirty."""
    running.execute("UPDATE memforest.cell SET state = 'ready'")
    running.execute("UPDATE memforest.node SET version = version + 1 WHERE level > 0")
    running.execute("UPDATE memforest.tree SET due_at = now()")
    running.drive()


def test_a_file_that_is_missing_is_refused_at_the_start(ground: Ground, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="MEMFOREST_PROMPTS__BROWSE"), ground.opened(browse=tmp_path / "none.txt"):
        pass
