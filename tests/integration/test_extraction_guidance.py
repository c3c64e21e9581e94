"""What steers extraction, as a model over HTTP gets it: settings, names of attributes, parameters; and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memforest_core.ingest.extract.extraction_prompt import SYSTEM
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import wants_extraction
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import stack

DAY = 86_400


def llm(model: ModelServer, **more: object) -> dict[str, object]:
    return {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key", **more}


def requested(model: ModelServer) -> list[Mapping[str, Any]]:
    """The bodies of the extraction calls."""
    return [call.body for call in model.requests if call.path.endswith("/completions") and wants_extraction(call.body)]


NAMES = "Attributes in use, take one where it fits: "


def names_shown(body: Mapping[str, Any]) -> list[str]:
    """Names of attributes at the end of what a call shows."""
    last = str(body["messages"][1]["content"]).splitlines()[-1]
    return last.removeprefix(NAMES).split(", ") if last.startswith(NAMES) else []


def test_a_call_is_shown_the_names_of_known_attributes_and_nothing_else_of_memory(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given facts with attributes, then the next call gets their names, last; the fixed part stays as it was."""
    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        pipeline.memory.ingest("bob", "s1", said("I live in Davis.", "I work at a bakery."))
        pipeline.drive()
        pipeline.memory.ingest("eve", "s1", said("I live in Oslo.", name="Eve"))
        pipeline.drive()
        pipeline.memory.ingest("bob", "s2", said("I bought 3 red kayaks.", start=1_700_000_000 + DAY))
        pipeline.drive()

        first, other, second = requested(model)
        known = {row[0] for row in pipeline.rows("SELECT DISTINCT attribute FROM memforest.fact WHERE attribute <> ''")}
    assert names_shown(first) == names_shown(other) == []
    assert known >= set(names_shown(second)) >= {"residence", "job"}
    assert "Davis" not in second["messages"][1]["content"]
    assert {
        body["messages"][0]["content"].split("\n\nAnswer with JSON")[0][: len(SYSTEM)] for body in requested(model)
    } == {SYSTEM}


def test_at_most_32_names_are_shown_the_most_frequent_first(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        pipeline.memory.ingest("bob", "s1", said(*(f"I bought {n} lamps." for n in range(60))))
        pipeline.drive()
        pipeline.execute(
            "UPDATE memforest.fact SET attribute = CASE WHEN seq % 2 = 0 THEN 'lamp' WHEN seq % 3 = 0 THEN 'x; DROP'"
            " ELSE 'name ' || seq END"
        )
        pipeline.memory.ingest("bob", "s2", said("I sold a lamp.", start=1_700_000_000 + DAY))
        pipeline.drive()

        names = names_shown(requested(model)[-1])
    assert names[0] == "lamp"
    assert 10 < len(names) <= 32
    assert not any("DROP" in name for name in names)


def test_an_answer_is_not_paid_for_again_when_other_attributes_are_known(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with ModelServer() as model, stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as pipeline:
        pipeline.memory.ingest("bob", "s1", said("I live in Davis."))
        pipeline.drive()
        calls = len(requested(model))
        pipeline.execute("UPDATE memforest.fact SET attribute = 'something new'")
        pipeline.execute("UPDATE memforest.cell SET state = 'ready'")
        pipeline.drive()

        assert len(requested(model)) == calls == 1


def test_instructions_and_categories_follow_the_fixed_part_and_make_another_key(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given a session, when settings later say what matters, then the prompt says so too and the cache key is new."""
    extract = {"instructions": "Always keep order numbers.", "categories": ["orders", "returns"]}
    with ModelServer() as model:
        with stack(servers, tmp_path, embedder=embedder, llm=llm(model)) as before:
            before.memory.ingest("bob", "s1", said("I live in Davis."))
            before.drive()
            [plain] = before.rows("SELECT input_hash FROM memforest.extraction_cache")
        (tmp_path / "told").mkdir()
        with stack(servers, tmp_path / "told", embedder=embedder, llm=llm(model), extract=extract) as pipeline:
            pipeline.memory.ingest("bob", "s1", said("I live in Davis."))
            pipeline.drive()
            [reported] = pipeline.rows("SELECT input_hash FROM memforest.extraction_cache")
        _, body = requested(model)
    system = body["messages"][0]["content"]
    assert plain != reported
    assert system.startswith(SYSTEM)
    added = system.removeprefix(SYSTEM)
    assert "orders, returns" in added and "Always keep order numbers." in added
