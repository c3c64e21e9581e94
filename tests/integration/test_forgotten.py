"""A deleted owner is gone: fifty planted phrases are found everywhere before, and nowhere after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from memforest_core.assistant.condensing import Condenser
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.assistant.profile.records import Made
from memforest_core.models.calls import Embedder
from memforest_core.store import tables as m
from memforest_core.store.copying import of_forest
from tests.harness.model_answers import default_answer, last_user_text
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.searching import in_broker, in_index_files, in_points, in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

SYLLABLES = ("bar", "dol", "fen", "gim", "kav", "lur", "mop", "nez", "quib", "tas")
PHRASES = tuple(f"{first}{second}ovix" for first in SYLLABLES for second in SYLLABLES[:5])
"""Fifty words that nothing else contains."""
PETS, LOCATIONS, FRIENDS, MARKS = PHRASES[:20], PHRASES[20:35], PHRASES[35:45], PHRASES[45:48]
SESSION, OWNER = PHRASES[48], PHRASES[49]
STORED = "zanzibarian"
"""A word of somebody else, which must still be found afterwards."""


def conversation(number: int) -> list[dict[str, object]]:
    """Turns that become facts, entities, scenes and states; some said by named speakers, with metadata."""
    lines = (
        f"I moved to {LOCATIONS[number % len(LOCATIONS)].capitalize()} in May 2023 with my parrot called"
        f" {PETS[2 * number % len(PETS)].capitalize()}.",
        f"My friend {FRIENDS[number % len(FRIENDS)].capitalize()} adopted a cat called"
        f" {PETS[(2 * number + 1) % len(PETS)].capitalize()}.",
    )
    turns = said(*lines)
    turns[0] |= {"metadata": {"mark": MARKS[number % len(MARKS)]}}
    turns[1] |= {"speaker_id": FRIENDS[number % len(FRIENDS)], "name": FRIENDS[number % len(FRIENDS)].capitalize()}
    return turns


def personal_columns() -> dict[str, sa.Column[Any]]:
    """The columns of text and JSON that the tables declare to be somebody's; here is no endpoint to deliver to."""
    return {
        f"{table.name}.{column.name}": column
        for table in m.Base.metadata.tables.values()
        for column in table.c
        if column.info.get("personal")
        and isinstance(column.type, sa.Text | sa.JSON)
        and table.name != "webhook_delivery"
    }


def plant(pipeline: Stack, column: sa.Column[Any]) -> None:
    """Put a phrase into a column of the owner's rows that no conversation has filled."""
    table = column.table
    new = f"coalesce({column.name}, '') || '{PETS[7]}'" if isinstance(column.type, sa.Text) else f"""'["{PETS[7]}"]'"""
    forest = pipeline.services.operations.find_forest(pipeline.tenant, OWNER)
    where = of_forest(table.name, pipeline.tenant, forest)
    pipeline.execute(
        str(
            sa.update(table)
            .values({column: sa.text(new)})
            .where(where)
            .compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
        )
    )


def answer(body: Mapping[str, Any]) -> str:
    """The server's own answers, and profiles that quote their states."""
    shown = last_user_text(body)
    if not shown.startswith('{"about"'):
        return default_answer(body)
    states = json.loads(shown)["states"]
    return json.dumps({"sentences": [{"text": each["text"], "states": [each["number"]]} for each in states]})


def test_after_deleting_an_owner_nothing_of_it_is_left(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given an owner whose sessions went through extraction, merging of facts, corrections, summaries, recall and a
    failed cell, when the owner is deleted, then none of fifty planted phrases is in Postgres, Qdrant or Redis."""
    with ModelServer(answer=answer) as model:
        llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key"}
        with stack(servers, tmp_path, embedder=embedder, llm=llm) as pipeline:
            memory = pipeline.memory
            for number in range(15):
                name = SESSION if number == 0 else f"s-{number}"
                memory.client.enqueue(OWNER, name, conversation(number))
            memory.client.enqueue("other", "s-1", said(f"I moved to {STORED.capitalize()} with two boxes."))
            pipeline.drive()
            found = memory.recall(OWNER, f"Where is {PETS[0].capitalize()}?").evidence
            fact = next(piece.fact_ids[0] for piece in found if piece.fact_ids)
            memory.lifecycle.pin(OWNER, fact, actor="test")
            memory.lifecycle.correct(OWNER, fact, text=f"Bob lives in {LOCATIONS[3].capitalize()} now.", actor="test")
            pipeline.drive()
            pipeline.execute(
                "UPDATE memforest.cell SET state = 'dead', error_code = 'e', error_text = 'e'"
                " WHERE cell_id = (SELECT cell_id FROM memforest.cell ORDER BY cell_id LIMIT 1)"
            )
            memory.remember(OWNER, f"I keep {PETS[4]} at home.")
            assert memory.profile(OWNER, "bob").made is Made.MODEL
            memory.client.append(OWNER, "s-open", {"role": "user", "content": f"Wait for {PETS[3]}."})
            memory.session_start(OWNER, SESSION)
            for number in range(12):
                memory.client.append(OWNER, "s-long", {"role": "user", "content": f"{PETS[number]} {'x' * 150}"})
            memory.window_put(OWNER, "s-long", found)
            assert memory.window(OWNER, "s-long").parts
            assert memory.context(OWNER, "s-long", f"Where is {PETS[0].capitalize()}?", "bob").section("profile")
            services = pipeline.services
            by_rules = WindowService(services.engine, services.settings.window, Condenser(None, 800))
            assert by_rules.window(pipeline.tenant, OWNER, "s-long").compacted == 8
            assert memory.today(OWNER).made
            assert memory.days(OWNER).items[-1].source == "degraded"
            assert memory.period(OWNER, "life").text
            for topic in memory.topics(OWNER).items:
                memory.topic_tag(OWNER, topic.id, [PETS[5]])
            pipeline.execute(f"UPDATE memforest.tree SET title = '{PETS[6]}' WHERE tags IS NOT NULL")
            assert memory.topics(OWNER).items
            held = {place for locations in in_tables(pipeline, PHRASES).values() for place in locations}
            for place in personal_columns().keys() - held:
                plant(pipeline, personal_columns()[place])
            before = in_tables(pipeline, PHRASES)
            assert sorted(before) == sorted(PHRASES)
            assert personal_columns().keys() <= {place for locations in before.values() for place in locations}

            operation = memory.lifecycle.forget(OWNER, everything=True, actor="test")
            assert not memory.recall(OWNER, "Where did Bob move?").owner_known
            pipeline.drive()

            assert operation.state().finished
            assert in_tables(pipeline, PHRASES) == {}
            assert in_points(pipeline, PHRASES) == []
            assert in_index_files(pipeline, PHRASES) == []
            assert in_broker(servers.redis_url, PHRASES) == []
            assert memory.lifecycle.receipt(operation.id).clean
            assert in_tables(pipeline, [STORED])
            assert memory.recall("other", "Where did Bob move?").evidence
            assert [entry.outcome for entry in memory.lifecycle.audit(OWNER, action="erase")] == ["done", "requested"]
